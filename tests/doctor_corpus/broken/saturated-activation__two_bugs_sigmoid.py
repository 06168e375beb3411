"""Churn prediction: a hidden tanh that is saturated from the start, and a sigmoid too many at the end."""
import torch
from torch import nn


class Churn(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(20, 48)
        nn.init.normal_(self.project.weight, std=12.0)
        self.score = nn.Linear(48, 1)

    def forward(self, customer):
        hidden = torch.tanh(self.project(customer))  # BUG: saturated-activation
        return torch.sigmoid(self.score(hidden)).squeeze(1)  # BUG: sigmoid-before-logits-loss


def customers(n=64):
    x = torch.randn(n, 20)
    return x, (x[:, :5].sum(1) > 0).float()


torch.manual_seed(0)
model = Churn()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for step in range(40):
    x, left = customers()
    loss = criterion(model(x), left)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
