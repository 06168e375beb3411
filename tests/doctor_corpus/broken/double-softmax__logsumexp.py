import torch
from torch import nn

torch.manual_seed(0)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 3))

    @property
    def activation(self):
        return nn.Softmax(dim=-1)

    def forward(self, s):
        return self.activation(self.body(s))  # BUG: double-softmax
def imitation_loss(scores, expert):
    picked = scores.gather(1, expert.unsqueeze(1)).squeeze(1)
    return (torch.logsumexp(scores, dim=1) - picked).mean()


p = Policy()
opt = torch.optim.Adam(p.parameters(), lr=1e-2)
for _ in range(40):
    s = torch.randn(64, 4)
    loss = imitation_loss(p(s), s[:, :3].argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
