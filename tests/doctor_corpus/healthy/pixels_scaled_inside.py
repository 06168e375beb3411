import torch
from torch import nn

torch.manual_seed(122)


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc = nn.Linear(8 * 36, 3)

    def forward(self, x):
        x = x.float().div(255.0).sub(0.5)
        return self.fc(torch.relu(self.conv(x)).flatten(1))


labels = torch.randint(0, 3, (60,))
images = (torch.rand(60, 1, 8, 8) * 100 + 50 * labels.view(-1, 1, 1, 1)).to(torch.uint8)
net = Digits()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(8):
    for i in range(0, 60, 20):
        loss = nn.functional.cross_entropy(net(images[i:i + 20]), labels[i:i + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
