import torch
from torch import nn

torch.manual_seed(4)


class Ensemble(nn.Module):
    def __init__(self, members=4):
        super().__init__()
        self.members = nn.ModuleList(nn.Linear(5, 1) for _ in range(members))
        self.combine = nn.Linear(members, 1)

    def forward(self, x):
        votes = [member(x).squeeze() for member in self.members]
        votes = torch.tensor(votes)  # BUG: left-the-graph
        return self.combine(votes)


model = Ensemble()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    x = torch.randn(5)
    loss = (model(x) - x.sum()).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
