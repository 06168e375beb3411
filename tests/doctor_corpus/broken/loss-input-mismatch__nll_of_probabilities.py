import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(36, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        return F.softmax(self.fc2(F.relu(self.fc1(x.flatten(1)))), dim=1)


model = Digits()
criterion = nn.NLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
img = torch.randn(80, 1, 6, 6)
lab = torch.randint(0, 4, (80,))
for epoch in range(4):
    for a, b in zip(img.split(20), lab.split(20)):
        out = model(a)
        optimizer.zero_grad()
        loss = criterion(out, b)  # BUG: loss-input-mismatch
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
