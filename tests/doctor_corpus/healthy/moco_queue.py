import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(34)
query = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
key = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
key.load_state_dict(query.state_dict())
for p in key.parameters():
    p.requires_grad = False
queue = F.normalize(torch.randn(64, 8), dim=1)
opt = torch.optim.SGD(query.parameters(), lr=0.1, momentum=0.9)
data = torch.randn(128, 10)
for step in range(30):
    x = data[torch.randperm(128)[:16]]
    q = F.normalize(query(x + 0.1 * torch.randn_like(x)), dim=1)
    with torch.no_grad():
        for pk, pq in zip(key.parameters(), query.parameters()):
            pk.data = pk.data * 0.9 + pq.data * 0.1
        k = F.normalize(key(x), dim=1)
    positive = (q * k).sum(1, keepdim=True)
    negative = q @ queue.t()
    logits = torch.cat([positive, negative], dim=1) / 0.2
    loss = F.cross_entropy(logits, torch.zeros(16, dtype=torch.long))
    opt.zero_grad()
    loss.backward()
    opt.step()
    queue = torch.cat([k, queue])[:64]
print(loss.item())
