import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(123)
model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(60, 5)
y = x[:, :3].argmax(1)
unlabelled = torch.randn(120, 5)
for step in range(40):
    loss = F.cross_entropy(model(x), y)
    weak = model(unlabelled + 0.01 * torch.randn_like(unlabelled)).softmax(1)
    confidence, pseudo = weak.max(1)
    mask = (confidence > 0.8).float().detach()
    strong = model(unlabelled + 0.1 * torch.randn_like(unlabelled))
    unsup = (F.cross_entropy(strong, pseudo, reduction="none") * mask).mean()
    total = loss + 0.5 * unsup
    opt.zero_grad()
    total.backward()
    opt.step()
print(loss.item(), unsup.item())
