import torch
from torch import nn

torch.manual_seed(94)


class HalfHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(10, 32)
        self.scale = nn.Parameter(torch.tensor(6.0))

    def forward(self, x):
        h = torch.relu(self.body(x)).half()
        gain = torch.exp(self.scale.half() * 2)  # BUG: overflow
        return (h * gain).float().mean(1)


net = HalfHead()
opt = torch.optim.SGD(net.parameters(), lr=1e-4)
for step in range(6):
    x = torch.randn(16, 10)
    loss = nn.functional.l1_loss(net(x), x[:, 0])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
