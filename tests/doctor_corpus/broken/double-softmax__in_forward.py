import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc1 = nn.Linear(8 * 6 * 6, 32)
        self.fc2 = nn.Linear(32, 5)

    def forward(self, x):
        x = F.relu(self.conv(x))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.softmax(self.fc2(x), dim=1)  # BUG: double-softmax


net = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
images = torch.randn(60, 1, 8, 8)
labels = torch.randint(0, 5, (60,))
for epoch in range(5):
    for i in range(0, 60, 12):
        optimizer.zero_grad()
        outputs = net(images[i:i + 12])
        loss = criterion(outputs, labels[i:i + 12])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
