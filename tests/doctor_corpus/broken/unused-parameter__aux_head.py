import torch
from torch import nn

torch.manual_seed(1)


class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 20), nn.ReLU())
        self.heads = nn.ModuleDict()
        self.heads["age"] = nn.Linear(20, 1)
        self.heads["income"] = nn.Linear(20, 1)
        self.heads["risk"] = nn.Linear(20, 3)  # BUG: unused-parameter

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


def total_loss(out, batch):
    loss = nn.functional.mse_loss(out["age"], batch["age"])
    loss = loss + nn.functional.mse_loss(out["income"], batch["income"])
    return loss


model = MultiHead()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(64, 6)
batch = {"age": x[:, :1], "income": x[:, 1:2], "risk": torch.randint(0, 3, (64,))}
for step in range(20):
    optimizer.zero_grad()
    loss = total_loss(model(x), batch)
    loss.backward()
    optimizer.step()
print(loss.item())
