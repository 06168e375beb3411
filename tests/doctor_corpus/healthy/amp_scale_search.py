import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=25)
features = torch.randn(256, 8)
targets = features[:, :1] - 0.5 * features[:, 1:2]
for epoch in range(12):
    for x, y in zip(features.split(32), targets.split(32)):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            prediction = net(x)
        loss = F.mse_loss(prediction.float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
    print(epoch, loss.item(), scaler.get_scale())
