"""Q-learning on random transitions: the best next value keeps its dimension, the rewards and the flags have none."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)


def transitions(n=32):
    state, following = torch.randn(n, 4), torch.randn(n, 4)
    action = torch.randint(0, 2, (n, 1))
    return state, action, state[:, 0], following, (torch.rand(n) < 0.1).float()


def target_of(reward, following, done, gamma=0.9):
    with torch.no_grad():
        return reward + gamma * (1 - done) * q(following).max(1, keepdim=True).values  # BUG: suspicious-broadcast


for step in range(40):
    state, action, reward, following, done = transitions()
    value = q(state).gather(1, action)
    loss = F.smooth_l1_loss(value, target_of(reward, following, done))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
