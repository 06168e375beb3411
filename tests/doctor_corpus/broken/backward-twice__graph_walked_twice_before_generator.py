import torch
from torch import nn

torch.manual_seed(4)
maker, critic = nn.Linear(3, 5), nn.Linear(5, 1)
making = torch.optim.Adam(maker.parameters(), lr=1e-3)
judging = torch.optim.Adam(critic.parameters(), lr=1e-3)
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
bce = nn.functional.binary_cross_entropy_with_logits
for step in range(5):
    fake = maker(torch.randn(16, 3)).detach()
    on_real, on_fake = bce(critic(torch.randn(16, 5)), ones), bce(critic(fake), zeros)
    judging.zero_grad()
    on_real.backward()  # BUG: backward-twice
    (on_real + on_fake).backward()  # BUG: backward-twice
    judging.step()

    making.zero_grad()
    bce(critic(maker(torch.randn(16, 3))), ones).backward()
    making.step()
