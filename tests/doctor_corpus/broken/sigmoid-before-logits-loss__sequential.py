import torch
from torch import nn

torch.manual_seed(105)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4), nn.Sigmoid())
bce = nn.BCEWithLogitsLoss(pos_weight=torch.full((4,), 2.0))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(64, 5)
tags = (x[:, :4] > 0).float()
for epoch in range(15):
    optimizer.zero_grad()
    scores = model(x)  # BUG: sigmoid-before-logits-loss
    flat = scores.reshape(64, 4)
    loss = bce(flat, tags)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
