import torch
from torch import nn

torch.manual_seed(1)


class BNNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.BatchNorm2d(6), nn.ReLU()
        )
        self.fc = nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(self.block(x).mean((2, 3)))


checkpoint = BNNet().state_dict()
model = BNNet()
model.load_state_dict(checkpoint)
model.eval()  # BUG: eval-mode-left-on

optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for it in range(20):
    y = torch.randint(0, 2, (12,))
    x = torch.randn(12, 1, 8, 8) * 2 + 3 * y.view(-1, 1, 1, 1)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("finetuned", loss.item())
