import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(71)
x = torch.randn(200, 5)
y = (x @ torch.randn(5, 3) + 0.5 * torch.randn(200, 3)).argmax(1)
model = nn.Linear(5, 3)
opt = torch.optim.Adam(model.parameters(), lr=5e-2)
for _ in range(40):
    opt.zero_grad()
    F.cross_entropy(model(x[:100]), y[:100]).backward()
    opt.step()

model.eval()
with torch.no_grad():
    logits = model(x[100:])
temperature = nn.Parameter(torch.ones(1) * 1.5)
cal = torch.optim.SGD([temperature], lr=0.05)
for _ in range(40):
    cal.zero_grad()
    nll = F.cross_entropy(logits / temperature, y[100:])
    nll.backward()
    cal.step()
print(temperature.item(), nll.item())
