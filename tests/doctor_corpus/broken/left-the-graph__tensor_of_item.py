import torch
import torch.nn as nn

torch.manual_seed(0)

features = torch.randn(120, 6)
targets = features @ torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0, 1.0]) + 0.1 * torch.randn(120)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)


def compute_loss(pred, target):
    err = (pred.squeeze(1) - target).pow(2).mean()
    return torch.tensor(err.item(), requires_grad=True)  # BUG: left-the-graph


for step in range(25):
    idx = torch.randperm(120)[:32]
    opt.zero_grad()
    loss = compute_loss(net(features[idx]), targets[idx])
    loss.backward()
    opt.step()
    if step % 5 == 0:
        print(step, loss.item())
