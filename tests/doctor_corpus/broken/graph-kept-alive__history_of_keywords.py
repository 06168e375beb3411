import torch
from torch import nn


class History(dict):
    def log(self, **kw):
        for k, v in kw.items():
            self.setdefault(k, []).append(v)  # BUG: graph-kept-alive
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
hist = History()
for step in range(60):
    x = torch.randn(32, 4)
    loss = (net(x) - x.norm(dim=1, keepdim=True)).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    hist.log(loss=loss, step=step)
print(torch.stack(hist["loss"]).mean().item())
