import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR

torch.manual_seed(4)
STEPS, WARMUP = 60, 20


def factor(step):
    if step < WARMUP:
        return 1e-5 + step / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
sched = LambdaLR(opt, factor)
x = torch.randn(100, 8)
y = x[:, :4].argmax(1)
for step in range(STEPS):
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 10 == 0:
        print(step, sched.get_last_lr(), loss.item())
