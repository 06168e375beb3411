import torch
import torch.nn as nn

torch.manual_seed(0)
cell = nn.Linear(4 + 8, 8)
out = nn.Linear(8, 1)
opt = torch.optim.Adam([*cell.parameters(), *out.parameters()], lr=1e-3)
x = torch.randn(12, 5, 4)
y = torch.randn(12, 5, 1)
for epoch in range(3):
    states = torch.zeros(12, 6, 8)
    for t in range(5):
        inp = torch.cat([x[:, t], states[:, t]], dim=1)
        states[:, t + 1] = torch.tanh(cell(inp))
    states[:, 1:] = states[:, 1:].exp()
    gate = states.sigmoid()
    gate[:, 0] = 0  # BUG: modified-in-place
    loss = ((out(gate[:, 1:]) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
