import torch
from torch import nn


def block(width):
    return nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU())


class Stack(nn.Module):
    def __init__(self, width=12, depth=12):
        super().__init__()
        for i in range(depth):
            self.add_module(f"block{i}", block(width))
        self.depth = depth
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for i in range(self.depth):
            x = x + getattr(self, f"block{i}")(x)
        return self.head(x)


def freeze_first_block(model):
    for name, parameter in model.named_parameters():
        if name.startswith("block1"):
            parameter.requires_grad = False  # BUG: frozen-parameter


torch.manual_seed(0)
x = torch.randn(256, 12)
y = torch.sin(x[:, :1]) + x[:, 1:2] * 0.5
model = Stack()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
freeze_first_block(model)
for epoch in range(8):
    for i in range(0, 256, 64):
        loss = nn.functional.huber_loss(model(x[i:i + 64]), y[i:i + 64])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
