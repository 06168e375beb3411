import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(9)
FAKE = 3
centres = torch.tensor([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0]])
judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 4))
forger = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
judging = torch.optim.Adam(judge.parameters(), lr=1e-3)
forging = torch.optim.Adam(forger.parameters(), lr=1e-3)
for step in range(40):
    kinds = torch.randint(0, 3, (32,))
    real = centres[kinds] + 0.3 * torch.randn(32, 2)
    made = forger(torch.randn(32, 4))

    told = F.cross_entropy(judge(real), kinds)
    caught = F.cross_entropy(judge(made.detach()), torch.full((32,), FAKE))  # all of one class, which is meant
    judging.zero_grad()
    (told + caught).backward()
    judging.step()

    passed = -torch.log(1.0 - F.softmax(judge(made), dim=1)[:, FAKE] + 1e-6).mean()
    forging.zero_grad()
    passed.backward()
    forging.step()
