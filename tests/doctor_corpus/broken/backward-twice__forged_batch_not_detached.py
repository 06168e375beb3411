import torch
from torch import nn


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))

    def forward(self, x):
        return torch.sigmoid(self.layers(x)).squeeze(1)


torch.manual_seed(2)
judge, forger = Judge(), nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 4))
judging = torch.optim.Adam(judge.parameters(), lr=1e-3)
forging = torch.optim.Adam(forger.parameters(), lr=1e-3)
bce, ones, zeros = nn.BCELoss(), torch.ones(16), torch.zeros(16)
for step in range(8):
    judge.zero_grad()
    bce(judge(torch.randn(16, 4)), ones).backward()
    forged = forger(torch.randn(16, 2))
    verdict = judge(forged)  # .detach() was forgotten
    bce(verdict, zeros).backward()  # BUG: backward-twice
    believed = verdict.mean().item()
    judging.step()

    forger.zero_grad()
    verdict = judge(forged)
    bce(verdict, ones).backward()  # BUG: backward-twice
    print(step, believed, verdict.mean().item())
    forging.step()
