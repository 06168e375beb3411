import torch
import torch.nn as nn

torch.manual_seed(0)
cell = nn.LSTMCell(3, 12)
out = nn.Linear(12, 3)
opt = torch.optim.Adam([*cell.parameters(), *out.parameters()], lr=5e-3)
series = torch.sin(torch.linspace(0, 30, 201))[:, None].repeat(1, 3).unsqueeze(1)
h, c = torch.zeros(1, 12), torch.zeros(1, 12)
for k in range(0, 200, 20):
    loss = 0.0
    for t in range(k, k + 20):
        h, c = cell(series[t], (h, c))
        loss = loss + nn.functional.mse_loss(out(h), series[t + 1])
    opt.zero_grad()
    loss.backward()
    opt.step()
    h.detach_()
    c.detach_()
    print(k, loss.item())
