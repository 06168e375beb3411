import torch
import torch.nn as nn


class LoRA(nn.Module):
    def __init__(self, base, r=4):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad = False
        self.A = nn.Parameter(torch.randn(r, base.in_features) * 0.1)
        self.B = nn.Parameter(torch.zeros(base.out_features, r))

    def forward(self, x):
        return self.base(x) + x @ self.A.t() @ self.B.t()


torch.manual_seed(0)
net = nn.Sequential(LoRA(nn.Linear(10, 20)), nn.Tanh(), LoRA(nn.Linear(20, 3)))
opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-2)
x = torch.randn(60, 10)
y = x[:, :3].argmax(1)
for i in range(25):
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
