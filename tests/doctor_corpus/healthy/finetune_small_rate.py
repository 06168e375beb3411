import io

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(128)
x = torch.randn(120, 8)
y = x[:, :3].argmax(1)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(30):
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    opt.step()
checkpoint = io.BytesIO()
torch.save(model.state_dict(), checkpoint)
checkpoint.seek(0)

tuned = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
tuned.load_state_dict(torch.load(checkpoint))
opt = torch.optim.AdamW(tuned.parameters(), lr=2e-4, weight_decay=0.01)
for step in range(30):
    loss = F.cross_entropy(tuned(x), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
print(loss.item())
