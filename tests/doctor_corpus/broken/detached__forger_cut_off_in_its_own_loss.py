import torch
from torch import nn

torch.manual_seed(11)
forger = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
judge = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
forging = torch.optim.Adam(forger.parameters(), lr=2e-3)
judging = torch.optim.Adam(judge.parameters(), lr=2e-3)
bce = nn.BCEWithLogitsLoss()
for step in range(25):
    real, fake = torch.randn(32, 2) * 0.5 + 1.0, forger(torch.randn(32, 3))
    verdict = bce(judge(real), torch.ones(32, 1)) + bce(judge(fake), torch.zeros(32, 1))
    verdict.backward()  # reaches the forger, whose gradients are thrown away below
    judging.step()
    forging.zero_grad()
    judging.zero_grad()

    fake = forger(torch.randn(32, 3))
    praise = bce(judge(fake.detach()), torch.ones(32, 1))  # BUG: detached
    praise.backward()
    forging.step()
    forging.zero_grad()
    judging.zero_grad()
