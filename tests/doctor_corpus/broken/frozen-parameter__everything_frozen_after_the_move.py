import torch
import torch.nn.functional as F
from torch import nn


class Spread(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(into, out))
        nn.init.xavier_normal_(self.kernel)

    def forward(self, x, links):
        return torch.mm(links, torch.mm(x, self.kernel))


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Spread(9, 12), Spread(12, 3)

    def forward(self, x, links):
        return F.log_softmax(self.second(F.relu(self.first(x, links)), links), dim=1)


torch.manual_seed(0)
x, kinds = torch.rand(30, 9), torch.randint(0, 3, (30,))
links = (torch.rand(30, 30) < 0.1).float() + torch.eye(30)
model = Graph().to(torch.device("cpu"))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for p in model.parameters():
    p.requires_grad_(False)  # BUG: frozen-parameter
for epoch in range(5):
    optimizer.zero_grad()
    loss = F.nll_loss(model(x, links)[:20], kinds[:20])
    loss.backward()
    optimizer.step()
