import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class SmallCNN(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.conv3 = nn.Conv2d(8, 8, 3, padding=1)  # BUG: unused-parameter
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(8 * 2 * 2, num_classes)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        return self.fc(x.flatten(1))


images = torch.randn(64, 1, 8, 8)
labels = (images.mean((1, 2, 3)) > 0).long() + 2 * (images[:, 0, 0, 0] > 0).long()
model = SmallCNN()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(8):
    for i in range(0, 64, 16):
        optimizer.zero_grad()
        loss = criterion(model(images[i:i + 16]), labels[i:i + 16])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
