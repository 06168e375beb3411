import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2)
        self.fc = nn.Linear(6 * 3 * 3, 16)

    def forward(self, x):
        return F.relu(self.fc(F.relu(self.conv(x)).flatten(1)))


encoder = Encoder()
shape_head = nn.Linear(16, 3)
color_head = nn.Linear(16, 2)
optimizer = torch.optim.Adam(list(encoder.parameters()) + list(shape_head.parameters()), lr=2e-3)  # BUG: not-in-optimizer

for step in range(25):
    img = torch.randn(16, 3, 8, 8)
    shape = torch.randint(0, 3, (16,))
    color = (img[:, 0].mean((1, 2)) > 0).long()
    feats = encoder(img)
    loss = F.cross_entropy(shape_head(feats), shape) + F.cross_entropy(color_head(feats), color)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
