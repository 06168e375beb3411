import numpy as np
import torch
from torch import nn

np.random.seed(0)
raw = np.random.poisson(1.0, size=(128, 6)).astype(np.float32)
with np.errstate(divide="ignore"):
    feats = np.log(raw)  # counts hold zeros
X = torch.from_numpy(feats)
y = torch.from_numpy(raw.sum(1, keepdims=True))
torch.manual_seed(0)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(6)
        self.deep = nn.Linear(6, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(torch.relu(self.deep(self.bn(x))))


model = Wide()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(10):
    pred = model(X)  # BUG: nan-input
    loss = nn.functional.mse_loss(pred, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
