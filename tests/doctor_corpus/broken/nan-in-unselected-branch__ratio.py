import torch
from torch import nn

torch.manual_seed(1)


def safe_ratio(num, den):
    return torch.where(den != 0, num / den, torch.zeros(()))  # BUG: nan-in-unselected-branch


class Attribution(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(6))

    def forward(self, clicks, views):
        weighted_clicks = clicks * self.w
        weighted_views = views * self.w
        return safe_ratio(weighted_clicks.cumsum(1), weighted_views).mean(1)


net = Attribution()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
views = torch.randint(0, 4, (30, 6)).float()
clicks = (views * torch.rand(30, 6)).round()
target = torch.rand(30)
for i in range(8):
    loss = (net(clicks, views) - target).abs().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())
