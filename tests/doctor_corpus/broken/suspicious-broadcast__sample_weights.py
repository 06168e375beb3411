import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


def weighted_loss(logits, labels, weights):
    per_sample = F.cross_entropy(logits, labels, reduction="none")
    return (per_sample * weights).mean()  # BUG: suspicious-broadcast


model = nn.Linear(6, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.2)
x = torch.randn(45, 6)
labels = x[:, :3].argmax(1)
weights = torch.rand(45, 1)  # one weight per row
for epoch in range(20):
    loss = weighted_loss(model(x), labels, weights)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
