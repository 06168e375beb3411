import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(9, 24)
        self.adapter = nn.Linear(24, 24)
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = torch.relu(self.adapter(x))
        return torch.softmax(self.head(x), dim=1)


def prepare(model):
    for layer in (model.stem, model.head):
        layer.requires_grad_(False)  # BUG: frozen-parameter
    return model


torch.manual_seed(0)
x = torch.randn(150, 9)
y = x[:, :3].argmax(dim=1)
model = prepare(Net())
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.NLLLoss()
for epoch in range(10):
    for i in range(0, 150, 50):
        optimizer.zero_grad()
        loss = criterion(model(x[i:i + 50]), y[i:i + 50])  # BUG: loss-input-mismatch
        loss.backward()
        optimizer.step()
    if epoch % 3 == 0:
        print(epoch, loss.item())
