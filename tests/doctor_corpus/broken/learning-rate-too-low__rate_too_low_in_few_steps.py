import torch
from torch import nn

torch.manual_seed(2)
x = torch.randn(64, 9, 4)
y = (x.sum((1, 2)) > 0).long()
model = nn.GRU(4, 32, batch_first=True)
head = nn.Linear(32, 2)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=2e-7)  # BUG: learning-rate-too-low
for epoch in range(3):
    for start in range(0, 64, 16):
        states, _ = model(x[start : start + 16])
        loss = nn.functional.cross_entropy(head(states[:, -1]), y[start : start + 16])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
