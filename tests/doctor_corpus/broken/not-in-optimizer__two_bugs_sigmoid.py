import torch
from torch import nn

torch.manual_seed(4)

body = nn.Sequential(nn.Linear(7, 20), nn.ReLU())
head = nn.Linear(20, 1)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)  # BUG: not-in-optimizer


def forward(x):
    hidden = body(x)
    out = head(hidden)
    return torch.sigmoid(out)  # BUG: sigmoid-before-logits-loss


x = torch.randn(80, 7)
y = (x[:, :1] > 0).float()
for epoch in range(20):
    optimizer.zero_grad()
    loss = criterion(forward(x), y)
    loss.backward()
    optimizer.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
