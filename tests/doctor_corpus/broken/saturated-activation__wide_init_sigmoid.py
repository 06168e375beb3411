import torch
import torch.nn as nn

torch.manual_seed(0)


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(16, 24)
        self.out = nn.Linear(24, 1)
        nn.init.normal_(self.hidden.weight, std=25.0)

    def forward(self, x):
        a = torch.sigmoid(self.hidden(x))  # BUG: saturated-activation
        return self.out(a)


x = torch.randn(100, 16)
y = x[:, :2].sum(1, keepdim=True)
model = Perceptron()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(20):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
