import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
teacher = nn.Linear(10, 5)
for p in teacher.parameters():
    p.requires_grad_(False)


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(10, 8)
        self.l2 = nn.Linear(8, 5)

    def forward(self, x):
        z = self.l2(F.relu(self.l1(x)))
        return F.softmax(z, dim=1)  # BUG: double-softmax


student = Student()
opt = torch.optim.SGD(student.parameters(), lr=0.5)
for it in range(25):
    x = torch.randn(40, 10)
    with torch.no_grad():
        soft = F.softmax(teacher(x) / 2.0, dim=1)
    s = student(x)
    loss = F.kl_div(F.log_softmax(s / 2.0, dim=1), soft, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
