import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)
random.seed(6)


def mlp():
    return nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 2))


online, target = mlp(), mlp()
target.load_state_dict(online.state_dict())
target.eval()
opt = torch.optim.Adam(online.parameters(), lr=3e-3)
buffer = deque(maxlen=500)
for _ in range(200):
    s = torch.rand(3)
    a = random.randrange(2)
    buffer.append((s, a, 1.0 if a == int(s[0] > 0.5) else 0.0, torch.rand(3)))
for step in range(50):
    batch = random.sample(buffer, 32)
    s = torch.stack([b[0] for b in batch])
    a = torch.tensor([b[1] for b in batch]).unsqueeze(1)
    r = torch.tensor([b[2] for b in batch])
    s2 = torch.stack([b[3] for b in batch])
    with torch.no_grad():
        best = target(s2).max(1)[0]
        goal = r + 0.9 * best
    q = online(s).gather(1, a).squeeze(1)
    loss = F.smooth_l1_loss(q, goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 9:
        target.load_state_dict(online.state_dict())
print(loss.item())
