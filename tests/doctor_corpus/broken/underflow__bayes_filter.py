import torch
from torch import nn

torch.manual_seed(90)


class HMM(nn.Module):
    """Forward algorithm in plain probabilities."""

    def __init__(self, states=4, symbols=6):
        super().__init__()
        self.trans = nn.Parameter(torch.randn(states, states))
        self.emit = nn.Parameter(torch.randn(states, symbols))

    def forward(self, obs):
        T = self.trans.softmax(1)
        E = self.emit.softmax(1)
        alpha = torch.full((T.size(0),), 1.0 / T.size(0))
        for o in obs:
            alpha = (alpha @ T) * E[:, o]  # BUG: underflow
        return alpha.sum()


hmm = HMM()
opt = torch.optim.Adam(hmm.parameters(), lr=1e-2)
obs = torch.randint(0, 6, (90,))
for step in range(6):
    likelihood = hmm(obs)
    loss = -likelihood
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
