import torch
from torch import nn

torch.manual_seed(37)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
bce = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 6)
labels = (x[:, :1] > 0).float()
for epoch in range(20):
    opt.zero_grad()
    logits = net(x)
    loss = bce(labels, logits)  # BUG: loss-input-mismatch
    loss.backward()
    opt.step()
    print(epoch, loss.item())
