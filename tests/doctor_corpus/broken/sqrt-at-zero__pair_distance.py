import torch
import torch.nn as nn

torch.manual_seed(0)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 4))

    def forward(self, a, b):
        ea, eb = self.net(a), self.net(b)
        return torch.sqrt((ea - eb).pow(2).sum(dim=1))  # BUG: sqrt-at-zero


def contrastive(d, same, margin=1.0):
    return (same * d ** 2 + (1 - same) * torch.clamp(margin - d, min=0) ** 2).mean()


model = Siamese()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(10):
    a = torch.randn(16, 10)
    b = torch.randn(16, 10)
    b[:4] = a[:4]  # positive pairs: the very same image
    same = torch.zeros(16)
    same[:4] = 1
    loss = contrastive(model(a, b), same)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
