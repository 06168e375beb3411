"""Semi-supervised mean teacher: the teacher is a moving average of the student."""
import copy

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(48, 3)

    def forward(self, x):
        return self.head(self.body(x))


@torch.no_grad()
def move_average(teacher, student, decay=0.95):
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.mul_(decay).add_(fast, alpha=1 - decay)
    for slow, fast in zip(teacher.buffers(), student.buffers()):
        slow.copy_(fast)


student = Student()
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)

centres = torch.randn(3, 8) * 1.5
opt = torch.optim.Adam(student.parameters(), lr=3e-3)
for step in range(60):
    y = torch.randint(0, 3, (32,))
    labelled = centres[y] + torch.randn(32, 8)
    unlabelled = centres[torch.randint(0, 3, (64,))] + torch.randn(64, 8)

    student.train()
    supervised = F.cross_entropy(student(labelled), y)
    noisy = unlabelled + 0.1 * torch.randn_like(unlabelled)
    ours = F.softmax(student(noisy), dim=1)
    theirs = F.softmax(teacher(unlabelled), dim=1)
    consistency = F.mse_loss(ours, theirs)
    loss = supervised + min(1.0, step / 30) * consistency
    opt.zero_grad()
    loss.backward()
    opt.step()
    move_average(teacher, student)
    if step % 20 == 0:
        teacher.eval()
        with torch.no_grad():
            accuracy = (teacher(labelled).argmax(1) == y).float().mean().item()
        teacher.train()
        print(step, loss.item(), accuracy)
