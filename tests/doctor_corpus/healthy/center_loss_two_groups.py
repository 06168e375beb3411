import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(40)


class CenterLoss(nn.Module):
    def __init__(self, classes, dim):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(classes, dim))

    def forward(self, f, y):
        return (f - self.centers[y]).pow(2).sum(1).mean()


body = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
head = nn.Linear(4, 3)
center = CenterLoss(3, 4)
opt = torch.optim.Adam(
    [
        {"params": list(body.parameters()) + list(head.parameters())},
        {"params": center.parameters(), "lr": 0.05},
    ],
    lr=5e-3,
)
x = torch.randn(90, 8)
y = x[:, :3].argmax(1)
for epoch in range(30):
    f = body(x)
    loss = F.cross_entropy(head(f), y) + 0.1 * center(f, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
