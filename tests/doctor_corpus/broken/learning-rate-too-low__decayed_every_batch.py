import torch
from torch import nn, optim
import torch.nn.functional as F

torch.manual_seed(1)


class LSTMTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 16, batch_first=True)
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        return self.fc(self.lstm(self.emb(x))[0])


model = LSTMTagger()
optimizer = optim.Adam(model.parameters(), lr=1e-2)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)  # BUG: learning-rate-too-low
data = torch.randint(0, 20, (40, 6))
tags = data % 3
for epoch in range(12):
    for i in range(0, 40, 10):
        out = model(data[i:i + 10])
        loss = F.cross_entropy(out.reshape(-1, 3), tags[i:i + 10].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    print(epoch, loss.item(), optimizer.param_groups[0]["lr"])
