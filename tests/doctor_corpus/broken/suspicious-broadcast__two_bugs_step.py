import torch
import torch.nn as nn

torch.manual_seed(111)


class Regression:
    def __init__(self, dim):
        self.model = nn.Sequential(nn.Linear(dim, 12), nn.ELU(), nn.Linear(12, 1))
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=1e-3)
        self.losses = []

    def fit(self, x, y, epochs):
        for _ in range(epochs):
            self.optimizer.zero_grad()
            residual = self.model(x) - y  # BUG: suspicious-broadcast
            loss = residual.pow(2).mean()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss)  # BUG: graph-kept-alive


x = torch.randn(50, 3)
r = Regression(3)
r.fit(x, x.sum(1), 20)
print(r.losses[-1].item())
