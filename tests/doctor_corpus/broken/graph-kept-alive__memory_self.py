import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(102)


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 8)
        self.out = nn.Linear(8, 1)
        self.state = torch.zeros(4, 8)

    def forward(self, x):
        self.state = self.cell(x, self.state)  # BUG: graph-kept-alive
        return self.out(self.state)


model = Stateful()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for t in range(6):
    x = torch.randn(4, 3)
    loss = F.mse_loss(model(x), x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(t, loss.item())
print("trained")
