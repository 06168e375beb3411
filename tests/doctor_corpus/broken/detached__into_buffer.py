import torch, torch.nn as nn
torch.manual_seed(0)
cell = nn.Linear(4 , 8)
out = nn.Linear(8, 1)
opt = torch.optim.Adam([*cell.parameters(), *out.parameters()], lr=1e-3)
x = torch.randn(12, 5, 4)
y = torch.randn(12, 5, 1)
for epoch in range(6):
    states = torch.zeros(12, 5, 8)
    for t in range(5):
        states[:, t] = torch.tanh(cell(x[:, t])).data  # BUG: detached
    loss = ((out(states) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
