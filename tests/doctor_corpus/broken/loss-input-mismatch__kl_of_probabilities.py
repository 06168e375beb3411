import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)
teacher = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 4))
student = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))
for p in teacher.parameters():
    p.requires_grad_(False)
opt = torch.optim.Adam(student.parameters(), lr=5e-3)


def distillation_loss(s_logits, t_logits, temperature=3.0):
    s = F.softmax(s_logits / temperature, dim=-1)
    t = F.softmax(t_logits / temperature, dim=-1)
    return F.kl_div(s, t, reduction="batchmean") * temperature ** 2  # BUG: loss-input-mismatch


for step in range(30):
    x = torch.randn(40, 5)
    loss = distillation_loss(student(x), teacher(x))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item())
