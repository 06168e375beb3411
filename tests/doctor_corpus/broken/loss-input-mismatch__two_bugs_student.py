import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(11)
T = 2.0


def mlp(width, dropout):
    return nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 6))


def toy_batch(n=96):
    labels = torch.randint(0, 6, (n,))
    centres = torch.linspace(-2, 2, 6).unsqueeze(1) * torch.ones(6, 20)
    signs = torch.tensor([1.0, -1.0]).repeat(10)
    return centres[labels] * signs + torch.randn(n, 20), labels


teacher, student = mlp(128, 0.0), mlp(24, 0.2)

# --- teacher ---
opt_t = torch.optim.Adam(teacher.parameters(), lr=3e-3)
for _ in range(30):
    x, y = toy_batch()
    opt_t.zero_grad()
    F.cross_entropy(teacher(x), y).backward()
    opt_t.step()

# --- distillation ---
for net in (teacher, student):
    net.eval()  # BUG: eval-mode-left-on

opt_s = torch.optim.Adam(student.parameters(), lr=3e-3)
for step in range(40):
    x, y = toy_batch()
    with torch.no_grad():
        soft = F.softmax(teacher(x) / T, dim=1)
    ours = F.softmax(student(x) / T, dim=1)
    loss = F.kl_div(ours, soft, reduction="batchmean") * T * T  # BUG: loss-input-mismatch
    opt_s.zero_grad()
    loss.backward()
    opt_s.step()
    if step % 10 == 0:
        print("kl", loss.item())
