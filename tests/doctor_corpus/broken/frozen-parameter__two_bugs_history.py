import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
encoder = nn.Sequential(nn.Linear(9, 18), nn.ReLU(), nn.Linear(18, 6))
decoder = nn.Sequential(nn.Linear(6, 18), nn.ReLU(), nn.Linear(18, 9))
for name, p in encoder.named_parameters():
    if name.startswith("0"):
        p.requires_grad_(False)  # BUG: frozen-parameter

params = list(encoder.parameters()) + list(decoder.parameters())
optimizer = torch.optim.Adam(params, lr=3e-3)
data = torch.randn(100, 9)
history = []
for epoch in range(10):
    for batch in data.split(25):
        optimizer.zero_grad()
        loss = F.l1_loss(decoder(encoder(batch)), batch)
        loss.backward()
        optimizer.step()
        history.append(loss)  # BUG: graph-kept-alive
print("last", history[-1].item())
