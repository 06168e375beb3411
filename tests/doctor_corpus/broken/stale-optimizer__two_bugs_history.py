"""Transfer to fewer classes: the head is new, the optimizer is not, and the log keeps the losses themselves."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(1, 8, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten())
        self.head = nn.Linear(32, classes)

    def forward(self, signal):
        return self.head(self.features(signal))


def signals(n=32, classes=3):
    label = torch.randint(0, classes, (n,))
    time = torch.linspace(0, 6, 48)
    wave = torch.sin(time * (label + 1).unsqueeze(1)) + 0.1 * torch.randn(n, 48)
    return wave.unsqueeze(1), label


torch.manual_seed(0)
model = Classifier(classes=10)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
model.head = nn.Linear(32, 3)  # BUG: stale-optimizer
log = {"loss": []}
for step in range(40):
    signal, label = signals()
    loss = F.cross_entropy(model(signal), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log["loss"].append(loss)  # BUG: graph-kept-alive
print(sum(value.item() for value in log["loss"][-5:]) / 5)
