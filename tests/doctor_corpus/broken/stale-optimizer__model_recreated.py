import torch
from torch import nn


def make_model():
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))


class Experiment:
    def __init__(self, lr=0.01):
        self.model = make_model()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.criterion = nn.MSELoss()

    def reset(self):
        torch.manual_seed(123)
        self.model = make_model()  # BUG: stale-optimizer

    def run(self, x, y, epochs):
        self.reset()
        history = []
        for _ in range(epochs):
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            history.append(loss.item())
        return history


torch.manual_seed(0)
x = torch.rand(50, 3)
history = Experiment().run(x, x.sum(1, keepdim=True), 25)
print(history[0], history[-1])
