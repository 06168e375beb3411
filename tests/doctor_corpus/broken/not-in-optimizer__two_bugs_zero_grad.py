import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(225)
enc = nn.Linear(6, 12)
dec = nn.Linear(12, 6)
opt = torch.optim.SGD(enc.parameters(), lr=0.02)  # BUG: not-in-optimizer
x = torch.randn(50, 6)
for step in range(25):
    loss = F.mse_loss(dec(torch.tanh(enc(x))), x)
    loss.backward()  # BUG: missing-zero-grad
    opt.step()
    if step % 5 == 0:
        print(step, loss.item())
