import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(24)


class PlainConv(nn.Module):
    def __init__(self, depth=12, ch=8):
        super().__init__()
        self.stem = nn.Conv2d(1, ch, 3, padding=1)
        self.convs = nn.ModuleList([nn.Conv2d(ch, ch, 3, padding=1) for _ in range(depth)])
        for conv in self.convs:
            nn.init.normal_(conv.weight, 0.0, 0.6)
        self.fc = nn.Linear(ch, 2)

    def forward(self, x):
        x = self.stem(x)
        for conv in self.convs:
            x = F.relu(conv(x))  # BUG: exploding-gradient
        return self.fc(x.mean((2, 3)))


model = PlainConv()
opt = torch.optim.Adam(model.parameters(), lr=1e-4)
for it in range(8):
    y = torch.randint(0, 2, (8,))
    x = torch.randn(8, 1, 6, 6)
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
