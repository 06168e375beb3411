import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(60)


class TopKGate(nn.Module):
    """Noisy top-k routing: only the chosen experts get gradients in a step."""

    def __init__(self, d, experts, k=2):
        super().__init__()
        self.k = k
        self.router = nn.Linear(d, experts)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 12), nn.ReLU(), nn.Linear(12, 1)) for _ in range(experts))

    def forward(self, x):
        scores = self.router(x)
        top, index = scores.topk(self.k, dim=-1)
        gates = torch.full_like(scores, float("-inf")).scatter(1, index, top).softmax(-1)
        outs = torch.stack([e(x).squeeze(-1) for e in self.experts], dim=1)
        return (gates * outs).sum(1)


net = TopKGate(6, 4)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(128, 6)
y = torch.where(x[:, 0] > 0, x[:, 1], x[:, 2] * 2)
for step in range(50):
    idx = torch.randint(0, 128, (32,))
    loss = F.mse_loss(net(x[idx]), y[idx])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
