import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(171)


class WorldModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 12)
        self.dynamics = nn.GRUCell(2, 12)
        self.decoder = nn.Linear(12, 6)

    def rollout(self, obs, actions):
        h = torch.tanh(self.encoder(obs))
        frames = []
        for a in actions:
            h = self.dynamics(a, h.detach())  # BUG: detached
            frames.append(self.decoder(h))
        return torch.stack(frames)


model = WorldModel()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(12):
    obs = torch.randn(8, 6)
    actions = torch.randn(4, 8, 2)
    wanted = obs.expand(4, 8, 6) + 0.1 * actions.cumsum(0).sum(-1, keepdim=True)
    loss = F.mse_loss(model.rollout(obs, actions), wanted)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
