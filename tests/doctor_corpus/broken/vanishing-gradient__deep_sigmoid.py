import torch
import torch.nn as nn

torch.manual_seed(0)


class DeepSigmoid(nn.Module):
    def __init__(self, depth=14, width=32):
        super().__init__()
        self.inp = nn.Linear(8, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        x = torch.sigmoid(self.inp(x))
        for layer in self.layers:
            x = torch.sigmoid(layer(x))  # BUG: vanishing-gradient
        return self.out(x)


model = DeepSigmoid()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
x = torch.randn(128, 8)
y = (x[:, 0] > 0).long()
for epoch in range(10):
    for i in range(0, 128, 32):
        optimizer.zero_grad()
        loss = criterion(model(x[i:i + 32]), y[i:i + 32])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
