import torch
import torch.nn as nn
import torch.nn.functional as F


class Solver(object):
    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer
        self.step_count = 0

    def _forward(self, batch):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def _optimize(self, loss):
        loss.backward()  # BUG: missing-zero-grad
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.optimizer.step()
        self.step_count += 1

    def solve(self, batches, epochs=5):
        for _ in range(epochs):
            for batch in batches:
                loss = self._forward(batch)
                self._optimize(loss)
            print(self.step_count, loss.item())


torch.manual_seed(99)
x = torch.randn(80, 6)
y = x[:, :3].argmax(1)
net = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 3))
Solver(net, torch.optim.Adam(net.parameters(), lr=1e-2)).solve(list(zip(x.split(20), y.split(20))))
