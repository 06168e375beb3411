import torch
from torch import nn

torch.manual_seed(2)
scorer = nn.Linear(5, 7)
optimizer = torch.optim.SGD(scorer.parameters(), lr=0.1)
inputs, wanted = torch.randn(30, 5), torch.randint(0, 4, (30,))
allowed = torch.arange(7) < 4 + torch.randint(0, 3, (30, 1))

for step in range(12):
    scores = scorer(inputs).masked_fill(~allowed, -torch.inf)
    top = scores.max(dim=1, keepdim=True).values
    weights = torch.exp(scores - top)  # exp(-inf) is 0, and so is its derivative
    shares = weights / weights.sum(dim=1, keepdim=True)
    loss = -torch.log(shares.gather(1, wanted[:, None])).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
