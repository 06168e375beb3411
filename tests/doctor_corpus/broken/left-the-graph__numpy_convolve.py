import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(180)


def smooth(signal, kernel=3):
    out = np.convolve(signal.detach().cpu().numpy().ravel(), np.ones(kernel) / kernel, mode="same")  # BUG: left-the-graph
    return torch.as_tensor(out, dtype=torch.float32).view_as(signal)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(16, 32)
        self.mid = nn.Linear(32, 16)
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x):
        y = self.mid(F.relu(self.inp(x)))
        return smooth(y) * self.scale


net = Denoiser()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(15):
    clean = torch.sin(torch.linspace(0, 6, 16)).repeat(8, 1)
    loss = F.mse_loss(net(clean + 0.2 * torch.randn(8, 16)), clean)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
