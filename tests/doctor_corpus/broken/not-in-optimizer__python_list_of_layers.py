import torch
from torch import nn

torch.manual_seed(1)


class DeepNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.first = nn.Linear(4, width)
        self.layers = [nn.Linear(width, width) for _ in range(depth)]
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.last(x)


def train(model, x, y, epochs=20):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)  # BUG: not-in-optimizer
    for epoch in range(epochs):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 5 == 0:
            print(epoch, loss.item())


inputs = torch.randn(64, 4)
train(DeepNet(24, 3), inputs, inputs.pow(2).sum(1, keepdim=True))
