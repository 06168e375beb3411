import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(1)
x, y = torch.randn(80, 6), torch.randint(0, 3, (80,))
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def fit():
    loss = F.nll_loss(model(x[:60]), y[:60])  # BUG: loss-input-mismatch
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@torch.no_grad()
def validate():
    return F.nll_loss(model(x[60:]), y[60:]).item()  # the same slip, and not a second one


for epoch in range(12):
    fit()
    print(epoch, validate())
