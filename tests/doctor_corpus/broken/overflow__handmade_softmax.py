import torch
import torch.nn as nn

torch.manual_seed(0)


def softmax(scores):
    e = torch.exp(scores)  # BUG: overflow
    return e / e.sum(dim=1, keepdim=True)


class Linear1(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        return softmax(x @ self.w)


model = Linear1()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(50, 6) * 30
y = torch.randint(0, 4, (50,))
for epoch in range(10):
    p = model(x)
    loss = -(p[torch.arange(50), y] + 1e-9).log().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
