import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(89)


class LowRank(nn.Module):
    """LoRA with both factors at zero."""

    def __init__(self, d_in, d_out, r=4):
        super().__init__()
        self.base = nn.Linear(d_in, d_out)
        self.A = nn.Linear(d_in, r, bias=False)
        self.B = nn.Linear(r, d_out, bias=False)
        nn.init.zeros_(self.A.weight)  # BUG: zero-initialised
        nn.init.zeros_(self.B.weight)  # BUG: zero-initialised
        for p in self.base.parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + self.B(self.A(x))


layer = LowRank(8, 3)
opt = torch.optim.Adam([p for p in layer.parameters() if p.requires_grad], lr=1e-2)
x = torch.randn(90, 8)
y = x[:, :3].argmax(1)
for epoch in range(15):
    loss = F.cross_entropy(layer(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
