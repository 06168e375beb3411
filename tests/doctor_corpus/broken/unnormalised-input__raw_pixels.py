import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(38)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x.view(-1, 64))))


labels = torch.randint(0, 4, (80,))
pixels = (torch.rand(80, 8, 8) * 180 + labels.view(-1, 1, 1) * 25).to(torch.uint8)
model = MLP()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(6):
    for i in range(0, 80, 20):
        images = pixels[i:i + 20].float()
        logits = model(images)  # BUG: unnormalised-input
        loss = F.cross_entropy(logits, labels[i:i + 20])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
