import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)
T = 2.0
teacher = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3)).eval()
student = nn.Linear(6, 3)
optimizer = torch.optim.Adam(student.parameters(), lr=0.01)

for step in range(30):
    x = torch.randn(32, 6)
    with torch.no_grad():
        soft = F.softmax(teacher(x) / T, dim=1)
    student_probs = torch.softmax(student(x) / T, dim=1)  # BUG: double-softmax
    log_student = F.log_softmax(student_probs, dim=1)
    loss = F.kl_div(log_student, soft, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
