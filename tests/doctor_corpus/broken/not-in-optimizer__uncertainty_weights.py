"""Multi-task with learned uncertainty weights (log-variances)."""
import torch
import torch.nn as nn

torch.manual_seed(21)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(10, 30), nn.ReLU())
        self.reg = nn.Linear(30, 1)
        self.cls = nn.Linear(30, 4)

    def forward(self, x):
        h = self.shared(x)
        return self.reg(h), self.cls(h)


class UncertaintyLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, l1, l2):
        losses = torch.stack([l1, l2])
        return (torch.exp(-self.log_vars) * losses + self.log_vars).sum()


model = MultiTask()
criterion = UncertaintyLoss()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)  # BUG: not-in-optimizer
x = torch.randn(80, 10)
y_reg = x.sum(1, keepdim=True)
y_cls = x[:, :4].argmax(1)
for ep in range(20):
    r, c = model(x)
    loss = criterion(nn.functional.mse_loss(r, y_reg), nn.functional.cross_entropy(c, y_cls))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item(), criterion.log_vars)
