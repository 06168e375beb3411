import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(60):
    x = torch.randn(48, 6)
    logits = net(x)
    p = logits.softmax(-1)
    confidence = torch.logsumexp(10 * p, dim=-1) / 10  # a smooth maximum: a penalty on being too sure
    loss = F.cross_entropy(logits, x[:, :4].argmax(1)) + 0.1 * confidence.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
