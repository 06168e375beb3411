import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(129)


class SVM(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Linear(d, 1)

    def forward(self, x):
        return self.w(x).squeeze(-1)


x = torch.randn(100, 4)
y = torch.sign(x[:, 0] + 0.3)
x = x + 0.5 * y[:, None] * torch.tensor([1.0, 0.0, 0.0, 0.0])
svm = SVM(4)
opt = torch.optim.SGD(svm.parameters(), lr=0.1)
for epoch in range(60):
    margin = y * svm(x)
    loss = F.relu(1 - margin).mean() + 1e-3 * svm.w.weight.pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
