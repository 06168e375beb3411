import torch
from torch import nn
import torch.nn.functional as F


class AverageMeter:
    def __init__(self):
        self.total, self.n, self.values = 0.0, 0, []

    def update(self, value, n=1):
        self.total += value * n
        self.n += n
        self.values.append(value)

    @property
    def avg(self):
        return self.total / max(self.n, 1)


def accuracy(logits, y):
    return (logits.argmax(1) == y).float().mean()


torch.manual_seed(63)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
x = torch.randn(120, 6)
y = x[:, :3].argmax(1)
losses, accs = AverageMeter(), AverageMeter()
confusion = torch.zeros(3, 3)
for epoch in range(6):
    for xb, yb in zip(x.split(30), y.split(30)):
        logits = model(xb)
        loss = F.cross_entropy(logits, yb)
        acc = accuracy(logits, yb)
        for t, p in zip(yb, logits.argmax(1)):
            confusion[t, p] += 1
        probs = logits.softmax(1).detach().numpy()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.update(loss.detach(), len(xb))
        accs.update(acc, len(xb))
    grad_norm = sum(p.grad.pow(2).sum() for p in model.parameters()) ** 0.5
    print(epoch, float(losses.avg), float(accs.avg), float(grad_norm), probs.max())
