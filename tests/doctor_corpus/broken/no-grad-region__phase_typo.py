import torch
from torch import nn

torch.manual_seed(140)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
data = {"train": torch.randn(32, 4), "val": torch.randn(16, 4)}

for epoch in range(3):
    for phase in ["train", "val"]:
        inputs = data[phase]
        labels = (inputs[:, 0] > 0).long()
        optimizer.zero_grad()
        with torch.set_grad_enabled(phase == "training"):
            outputs = model(inputs)  # BUG: no-grad-region
            _, preds = torch.max(outputs, 1)
            loss = criterion(outputs, labels)
        if phase == "train":
            loss.backward()
            optimizer.step()
        print(epoch, phase, loss.item(), (preds == labels).float().mean().item())
