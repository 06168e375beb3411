import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(199)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(50, 6)
votes = torch.randint(0, 10, (50, 4)).float()  # how many people chose each answer
for epoch in range(15):
    opt.zero_grad()
    scores = model(x)
    loss = F.cross_entropy(scores, votes)  # BUG: wrong-target
    loss.backward()
    opt.step()
    print(epoch, loss.item())
