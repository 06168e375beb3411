import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.classifier = nn.Linear(16, classes)

    def forward(self, x):
        return self.classifier(self.features(x))


model = Net(classes=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

# our dataset only has 3 classes
model.classifier = nn.Linear(16, 3)  # BUG: stale-optimizer

x = torch.randn(60, 8)
y = x[:, :3].argmax(1)
for epoch in range(15):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
