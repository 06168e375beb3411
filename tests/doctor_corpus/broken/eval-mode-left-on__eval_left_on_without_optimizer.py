import torch
from torch import nn

torch.manual_seed(4)
x, y = torch.randn(64, 5), torch.randint(0, 2, (64,))
model = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Dropout(0.3), nn.Linear(20, 2))


def epoch():
    model.eval()  # BUG: eval-mode-left-on
    for start in range(0, 64, 16):
        loss = nn.functional.cross_entropy(model(x[start : start + 16]), y[start : start + 16])
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.1)
    return loss.item()


for number in range(4):
    print(number, epoch())
