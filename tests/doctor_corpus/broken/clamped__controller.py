"""Learn a controller through a differentiable simulation of a servo."""
import torch
from torch import nn


class Controller(nn.Module):
    def __init__(self, gain=40.0):
        super().__init__()
        self.gain = gain
        self.net = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 1))
        nn.init.constant_(self.net[-1].bias, 0.6)

    def forward(self, state, goal):
        raw = self.net(torch.cat([state, goal], dim=1)) * self.gain
        return torch.clamp(raw, -1.0, 1.0)  # BUG: clamped


def simulate(controller, position, goal, dt=0.1, horizon=15):
    velocity = torch.zeros_like(position)
    cost = 0.0
    for _ in range(horizon):
        force = controller(torch.cat([position, velocity], dim=1), goal)
        velocity = 0.9 * velocity + dt * force
        position = position + dt * velocity
        cost = cost + (position - goal).pow(2).mean()
    return cost / horizon


def main():
    torch.manual_seed(0)
    controller = Controller()
    optimizer = torch.optim.Adam(controller.parameters(), lr=1e-3)
    for it in range(40):
        position = torch.rand(64, 1) * 0.2
        goal = torch.rand(64, 1) * 0.2
        cost = simulate(controller, position, goal)
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        if it % 10 == 0:
            print(it, cost.item())


main()
