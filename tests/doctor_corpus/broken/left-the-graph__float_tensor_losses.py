import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(142)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(6, 16)
        self.a = nn.Linear(16, 1)
        self.b = nn.Linear(16, 3)

    def forward(self, x):
        h = torch.relu(self.trunk(x))
        return self.a(h).squeeze(1), self.b(h)


def combine(losses):
    stacked = torch.FloatTensor(losses)  # BUG: left-the-graph
    return stacked.sum().requires_grad_()


model = MultiTask()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(40, 6)
y, c = x.sum(1), x[:, :3].argmax(1)
for step in range(10):
    a, b = model(x)
    loss = combine([F.mse_loss(a, y), F.cross_entropy(b, c)])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
