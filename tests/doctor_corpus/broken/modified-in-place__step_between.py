import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(6, 16)
        self.l2 = nn.Linear(16, 1)

    def forward(self, s, a):
        h = F.relu(self.l1(torch.cat([s, a], 1)))
        return self.l2(h).squeeze(1)  # BUG: modified-in-place


actor = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.Tanh())
critic = Critic()
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)

for update in range(5):
    s, r = torch.randn(32, 4), torch.randn(32)
    a_data = torch.rand(32, 2) * 2 - 1
    critic_loss = F.mse_loss(critic(s, a_data), r)
    actor_loss = -critic(s, actor(s)).mean()

    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()  # BUG: modified-in-place

    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    print(update, critic_loss.item())
