import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


class Transfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        with torch.no_grad():
            feats = self.backbone(x)
        return self.head(feats)


model = Transfer()
for p in model.backbone.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for epoch in range(30):
    y = torch.randint(0, 2, (32,))
    x = torch.randn(32, 1, 8, 8) + y.view(-1, 1, 1, 1)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
