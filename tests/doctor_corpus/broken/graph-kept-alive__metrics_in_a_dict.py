import torch
from collections import defaultdict


class Tracker:
    def __init__(self):
        self.values = defaultdict(list)

    def update(self, *, metrics, step):
        for name, metric in metrics.items():
            self.values[name].append(metric)  # BUG: graph-kept-alive


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
tracker = Tracker()
for step in range(40):
    x = torch.randn(32, 5)
    cost = torch.nn.functional.mse_loss(model(x), x[:, :1] * x[:, 1:2])
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
    tracker.update(metrics={"cost": cost, "rate": 1e-2}, step=step)
print(torch.stack(tracker.values["cost"]).mean().item())
