import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
teacher = nn.Linear(6, 4)
student = nn.Linear(6, 4)
opt = torch.optim.Adam(student.parameters(), lr=1e-2)
for _ in range(30):
    x = torch.randn(32, 6)
    with torch.no_grad():
        t = F.softmax(3 * teacher(x), dim=1)
    loss = F.kl_div(F.log_softmax(student(x), dim=1), t, reduction="batchmean", log_target=True)  # BUG: loss-input-mismatch
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
