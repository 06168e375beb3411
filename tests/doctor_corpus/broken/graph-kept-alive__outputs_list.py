import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
outputs = []
for i in range(20):
    x = torch.randn(16, 6)
    y = torch.randint(0, 3, (16,))
    out = net(x)
    loss = nn.functional.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    outputs.append(out)  # BUG: graph-kept-alive
print(torch.cat(outputs).argmax(1).bincount())
