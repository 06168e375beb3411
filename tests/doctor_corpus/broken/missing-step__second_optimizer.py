import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(27)


class Agent:
    def __init__(self):
        self.policy = nn.Linear(4, 2)
        self.value = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        self.policy_opt = torch.optim.Adam(self.policy.parameters(), lr=1e-2)
        self.value_opt = torch.optim.Adam(self.value.parameters(), lr=1e-2)

    def update(self, obs, act, ret):
        value = self.value(obs).squeeze(1)
        adv = (ret - value).detach()
        logp = F.log_softmax(self.policy(obs), 1)[torch.arange(len(act)), act]
        policy_loss = -(logp * adv).mean()
        self.policy_opt.zero_grad()
        policy_loss.backward()
        self.policy_opt.step()

        value_loss = F.mse_loss(value, ret)
        self.value_opt.zero_grad()
        value_loss.backward()  # BUG: missing-step
        self.policy_opt.step()
        return value_loss.item()


agent = Agent()
for it in range(20):
    obs = torch.randn(32, 4)
    act = torch.randint(0, 2, (32,))
    print(it, agent.update(obs, act, obs[:, 0] + act.float()))
