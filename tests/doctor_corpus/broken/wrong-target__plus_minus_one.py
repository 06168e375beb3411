import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


class MarginNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def loss(self, x, y):
        return F.binary_cross_entropy_with_logits(self.f(x).squeeze(1), y)  # BUG: wrong-target


x = torch.randn(64, 4)
y = torch.sign(x[:, 0])  # svm-style labels
net = MarginNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(25):
    opt.zero_grad()
    loss = net.loss(x, y)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
