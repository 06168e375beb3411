import torch
import torch.nn as nn

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.backbone(x))


model = Classifier()
for param in model.backbone.parameters():
    param.requires_grad = False  # BUG: frozen-parameter

optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
x = torch.randn(90, 12)
y = torch.randint(0, 3, (90,))
for epoch in range(10):
    for i in range(0, 90, 30):
        optimizer.zero_grad()
        loss = criterion(model(x[i:i + 30]), y[i:i + 30])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
