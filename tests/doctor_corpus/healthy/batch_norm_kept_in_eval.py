import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.pool = nn.AdaptiveAvgPool2d(3)

    def forward(self, x):
        return self.pool(torch.relu(self.bn(self.conv(x)))).flatten(1)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(72, 3)

    def train(self, mode=True):
        super().train(mode)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()
        return self

    def forward(self, x):
        return self.head(self.drop(self.backbone(x)))


torch.manual_seed(0)
y = torch.randint(0, 3, (96,))
x = 0.4 * torch.randn(96, 1, 9, 9)
for k in range(96):
    x[k, 0, 3 * y[k]:3 * y[k] + 3] += 1.0
model = Detector()
for p in model.backbone.bn.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(10):
    model.train()
    for i in range(0, 96, 24):
        optimizer.zero_grad()
        loss = criterion(model(x[i:i + 24]), y[i:i + 24])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x).argmax(1) == y).float().mean().item()
    print(epoch, loss.item(), accuracy)
