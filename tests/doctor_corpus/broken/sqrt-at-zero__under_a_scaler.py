import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 2))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
points = torch.randn(64, 8)
anchors = torch.randn(64, 2)
for step in range(14):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        embedded = net(points).float()
    spread = (embedded - embedded.mean(0)) * torch.zeros(64, 1)  # all weights of the mask are still off
    distance = spread.pow(2).sum(1).sqrt()  # BUG: sqrt-at-zero
    loss = (embedded - anchors).pow(2).mean() + 0.1 * distance.mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    print(step, loss.item(), scaler.get_scale())
