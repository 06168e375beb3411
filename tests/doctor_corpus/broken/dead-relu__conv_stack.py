import torch
from torch import nn

torch.manual_seed(1)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.conv2 = nn.Conv2d(6, 6, 3)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(6 * 4 * 4, 1)
        nn.init.uniform_(self.conv2.weight, -0.3, -0.1)
        nn.init.constant_(self.conv2.bias, -0.5)

    def forward(self, x):
        x = self.relu(self.conv1(x))
        x = self.conv2(x)
        x = self.relu(x)  # BUG: dead-relu
        return self.fc(x.flatten(1)).squeeze(1)


net = Detector()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
criterion = nn.BCEWithLogitsLoss()
for it in range(20):
    label = torch.randint(0, 2, (16,)).float()
    image = torch.randn(16, 1, 8, 8) + label.view(-1, 1, 1, 1)
    loss = criterion(net(image), label)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("bce", loss.item())
