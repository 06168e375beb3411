import torch
from torch import nn
import torch.nn.functional as F
from collections import deque
import random

torch.manual_seed(1)
random.seed(1)


class DQN(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))

    def forward(self, s):
        return self.net(s)


policy, target = DQN(), DQN()
target.load_state_dict(policy.state_dict())
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
memory = deque(maxlen=200)
for _ in range(100):
    s = torch.randn(4)
    memory.append((s, random.randint(0, 1), [float(s[0] > 0)], torch.randn(4)))

for step in range(25):
    batch = random.sample(memory, 16)
    s = torch.stack([b[0] for b in batch])
    a = torch.tensor([b[1] for b in batch])
    r = torch.tensor([b[2] for b in batch])
    s2 = torch.stack([b[3] for b in batch])
    q = policy(s).gather(1, a.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        q_next = target(s2).max(1).values
    td = q - (r + 0.9 * q_next)  # BUG: suspicious-broadcast
    loss = td.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        target.load_state_dict(policy.state_dict())
print(loss.item())
