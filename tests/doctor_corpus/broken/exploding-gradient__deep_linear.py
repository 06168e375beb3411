import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Stack(nn.Module):
    def __init__(self, depth=10, width=48):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=1.0)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.2)  # BUG: exploding-gradient
        return self.out(x)


model = Stack()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
x = torch.randn(64, 48)
y = torch.randn(64, 1)
for epoch in range(10):
    optimizer.zero_grad()
    loss = F.smooth_l1_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
