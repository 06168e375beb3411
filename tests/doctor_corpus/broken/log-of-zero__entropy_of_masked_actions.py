import torch
from torch import nn


class MaskedPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 5))

    def forward(self, state, allowed):
        logits = self.body(state).masked_fill(~allowed, float("-inf"))
        return torch.softmax(logits, dim=1)


def entropy(probability):
    return -(probability * torch.log(probability)).sum(dim=1).mean()  # BUG: log-of-zero


torch.manual_seed(0)
policy = MaskedPolicy()
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
for update in range(6):
    state = torch.randn(32, 6)
    allowed = torch.rand(32, 5) > 0.3
    allowed[:, 0] = True
    probability = policy(state, allowed)
    action = torch.multinomial(probability.detach().nan_to_num(1e-3), 1)
    reward = (action == 0).float()
    chosen = probability.gather(1, action).clamp_min(1e-6)
    loss = -(reward * chosen.log()).mean() - 0.01 * entropy(probability)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(update, loss.item())
