import torch
from torch import nn


class Multilabel(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 5)

    def squash(self, z):
        return 1.0 / (1.0 + torch.exp(-z))  # BUG: sigmoid-before-logits-loss
    def forward(self, x):
        return self.squash(self.lin(x))


torch.manual_seed(0)
net = Multilabel()
opt = torch.optim.SGD(net.parameters(), lr=0.5)
lossf = nn.MultiLabelSoftMarginLoss()
for _ in range(40):
    x = torch.randn(64, 8)
    loss = lossf(net(x), (x[:, :5] > 0).float())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
