import torch
from torch import nn


def train_step(model, opt, x, y):
    pred = model(x)
    loss = nn.functional.cross_entropy(pred, y)
    loss.backward()
    opt.zero_grad()  # BUG: missing-step
    opt.step()
    return loss.item()


torch.manual_seed(1)
model = nn.Sequential(nn.Flatten(), nn.Linear(25, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
images = torch.randn(48, 1, 5, 5)
labels = torch.randint(0, 3, (48,))
for epoch in range(15):
    print(epoch, train_step(model, opt, images, labels))
