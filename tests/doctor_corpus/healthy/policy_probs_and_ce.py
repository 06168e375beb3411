import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(130)


class BCThenRL(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 3))

    def forward(self, s):
        logits = self.net(s)
        return logits, F.softmax(logits, dim=-1)


agent = BCThenRL()
opt = torch.optim.Adam(agent.parameters(), lr=1e-2)
s = torch.randn(90, 4)
expert = s[:, :3].argmax(1)
for step in range(40):
    logits, probs = agent(s)
    imitation = F.cross_entropy(logits, expert)
    entropy = -(probs * torch.log(probs.clamp_min(1e-8))).sum(1).mean()
    action = torch.multinomial(probs, 1).squeeze(1)
    reward = (action == expert).float()
    reinforce = -(torch.log(probs.gather(1, action[:, None]).squeeze(1) + 1e-8) * (reward - reward.mean())).mean()
    loss = imitation + 0.1 * reinforce - 0.01 * entropy
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
