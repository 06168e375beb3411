import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(9)


class GatedNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(10, 16)
        self.head = nn.Linear(16, 1)
        self.scale_net = nn.Linear(10, 1)

    def forward(self, x):
        scale = float(self.scale_net(x).mean())  # BUG: left-the-graph
        return self.head(F.silu(self.body(x))) * (1.0 + scale)


model = GatedNet()
opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
X = torch.randn(100, 10)
Y = X[:, :1] * X[:, 1:2]
for epoch in range(10):
    for xb, yb in zip(X.split(25), Y.split(25)):
        opt.zero_grad()
        loss = F.mse_loss(model(xb), yb)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
