import logging
import math
import time

import torch
from torch import nn
import torch.nn.functional as F

logging.basicConfig(level=logging.WARNING)
log = logging.getLogger("train")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 32)
        self.b = nn.Linear(32, 4)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            self.steps += 1
        h = F.relu(self.a(x))
        self.activity = (h > 0).float().mean().item()
        return self.b(h)


torch.manual_seed(164)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
best = math.inf
x = torch.randn(96, 8)
y = x[:, :4].argmax(1)
tick = time.perf_counter()
for epoch in range(8):
    total, right = 0.0, 0
    for a, b in zip(x.split(32), y.split(32)):
        logits = net(a)
        loss = F.cross_entropy(logits, b)
        if not torch.isfinite(loss):
            raise RuntimeError("diverged")
        opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        opt.step()
        total += float(loss) * len(a)
        right += int((logits.argmax(1) == b).sum())
    best = min(best, total / 96)
    log.info("epoch %d loss %.4f acc %.2f norm %.3f active %.2f", epoch, total / 96, right / 96, float(norm), net.activity)
print(best, net.steps.item())
