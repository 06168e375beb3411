import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(107)
teacher = nn.Linear(6, 4).requires_grad_(False)
student = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
kl = nn.KLDivLoss(reduction="batchmean")
for step in range(20):
    x = torch.randn(32, 6)
    t = F.log_softmax(teacher(x), dim=1)
    s = F.log_softmax(student(x), dim=1)
    loss = kl(s, t)  # BUG: loss-input-mismatch
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, loss.item())
