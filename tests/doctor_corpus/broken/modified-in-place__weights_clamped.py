import torch
import torch.nn as nn

torch.manual_seed(196)


class Monotone(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.rand(3, 12))
        self.w2 = nn.Parameter(torch.rand(12, 1))

    def project(self):
        with torch.no_grad():
            self.w2.clamp_(min=0.1)  # BUG: modified-in-place

    def forward(self, x):
        h = torch.tanh(x @ self.w1)
        return h @ self.w2  # BUG: modified-in-place


model = Monotone()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.rand(40, 3)
for step in range(4):
    out = model(x)
    model.project()
    loss = (out - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
