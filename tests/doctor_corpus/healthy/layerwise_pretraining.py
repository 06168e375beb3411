import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(49)
data = torch.randn(120, 5) @ torch.randn(5, 16)
labels = (data[:, 0] > 0).long()

# first an autoencoder ...
encoder = nn.Sequential(nn.Linear(16, 12), nn.ReLU())
decoder = nn.Linear(12, 16)
opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
for _ in range(30):
    loss = F.mse_loss(decoder(encoder(data)), data)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("pretrained", loss.item())

# ... then a classifier on top of its frozen features
features = encoder(data).detach()
head = nn.Linear(12, 2)
opt = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
for _ in range(30):
    loss = F.cross_entropy(head(features), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("classifier", loss.item())
