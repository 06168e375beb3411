import torch
from torch import nn

torch.manual_seed(29)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
smooth = None
for step in range(40):
    x = torch.randn(32, 5)
    loss = nn.functional.l1_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if smooth is None:
        smooth = loss.item()
    smooth = 0.9 * smooth + 0.1 * loss  # BUG: graph-kept-alive
    if step % 10 == 0:
        print(step, float(smooth))
