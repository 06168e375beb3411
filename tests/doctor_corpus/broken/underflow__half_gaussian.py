import torch
import torch.nn as nn

torch.manual_seed(2)

points = torch.randn(40, 3) * 2
mu = nn.Parameter(torch.full((3,), 4.0))
optimizer = torch.optim.SGD([mu], lr=0.5)

for step in range(20):
    z = (points - mu).half()
    density = torch.exp(-4.0 * (z * z).sum(1))  # BUG: underflow
    loss = -density.float().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item(), mu.tolist())
