import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(19)


def kd_loss(student_logits, teacher_logits, labels, T=2.0, alpha=0.7):
    soft = F.kl_div(
        F.log_softmax(student_logits / T, dim=1), F.softmax(teacher_logits / T, dim=1), reduction="batchmean"
    )
    return alpha * T * T * soft + (1 - alpha) * F.cross_entropy(student_logits, labels)


x = torch.randn(150, 6)
y = x[:, :3].argmax(1)
teacher = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(teacher.parameters(), lr=1e-2)
for _ in range(40):
    loss = F.cross_entropy(teacher(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()

teacher.eval().requires_grad_(False)
student = nn.Linear(6, 3)
opt = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
for step in range(30):
    loss = kd_loss(student(x), teacher(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
