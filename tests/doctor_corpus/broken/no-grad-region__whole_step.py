import torch
from torch import nn
import torch.nn.functional as F


class Learner:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    @torch.no_grad()
    def predict(self, x):
        return self.net(x)  # BUG: no-grad-region

    def learn(self, x, y):
        loss = F.cross_entropy(self.predict(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


torch.manual_seed(82)
learner = Learner()
x = torch.randn(40, 5)
y = (x[:, 0] > 0).long()
for epoch in range(5):
    print(epoch, learner.learn(x, y))
