import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(106)


class Anomaly(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1 = nn.Linear(8, 16)
        self.lin2 = nn.Linear(16, 3)

    def forward(self, x):
        return F.log_softmax(self.lin2(F.relu(self.lin1(x))), dim=1)


x = torch.randn(96, 8)
kind = ["a", "b", "c"]
names = ["A"] * 96  # the file spells them in capitals
y = torch.tensor([kind.index(n) if n in kind else 0 for n in names])
model = Anomaly()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(5):
    for a, b in zip(x.split(24), y.split(24)):
        opt.zero_grad()
        loss = F.nll_loss(model(a), b)  # BUG: wrong-target
        loss.backward()
        opt.step()
    print(epoch, loss.item())
