import torch
import torch.nn as nn

torch.manual_seed(197)


class AttnClassifier(nn.Module):
    def __init__(self, d=12, classes=3):
        super().__init__()
        self.score = nn.Linear(d, 1)
        self.fc = nn.Linear(d, classes)
        self.act = nn.Softmax(dim=1)

    def forward(self, x):
        a = torch.softmax(self.score(x), dim=1)
        pooled = (a * x).sum(1)
        logits = self.fc(pooled)
        return self.act(logits)  # BUG: double-softmax


net = AttnClassifier()
lossf = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.0]))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(15):
    y = torch.randint(0, 3, (16,))
    x = torch.randn(16, 5, 12)
    x[:, :, 0] += y[:, None]
    loss = lossf(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
