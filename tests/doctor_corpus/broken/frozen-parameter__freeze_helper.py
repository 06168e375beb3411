import torch
import torch.nn as nn
import torch.nn.functional as F


def freeze(module):
    for weight in module.parameters():
        weight.requires_grad_(False)  # BUG: frozen-parameter


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.fc = nn.Linear(6 * 4 * 4, 12)

    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).flatten(1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.classifier = nn.Linear(12, 2)

    def forward(self, x):
        return self.classifier(torch.tanh(self.encoder(x)))


torch.manual_seed(8)
model = Model()
freeze(model.encoder.conv)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    y = torch.randint(0, 2, (16,))
    x = torch.randn(16, 1, 6, 6) + y.view(-1, 1, 1, 1)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
