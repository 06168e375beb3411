import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(187)


class SoftSelector(nn.Module):
    def __init__(self, slots, dim):
        super().__init__()
        self.keys = nn.Parameter(torch.randn(slots, dim))
        self.values = nn.Parameter(torch.randn(slots, 1))

    def forward(self, x, tau=0.002):
        logits = x @ self.keys.t() / tau
        weights = torch.softmax(logits, dim=-1)  # BUG: saturated-activation
        return (weights @ self.values).squeeze(-1)


model = SoftSelector(8, 6)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(80, 6)
y = x[:, 0]
for epoch in range(15):
    loss = F.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
