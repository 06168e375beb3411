import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self):
        self.model.train()
        self.optimizer.zero_grad()
        running = 0.0
        for inputs, labels in self.loader:
            loss = self.criterion(self.model(inputs), labels)
            loss.backward()  # BUG: missing-zero-grad
            self.optimizer.step()
            running += loss.item()
        return running / len(self.loader)


torch.manual_seed(1)
x = torch.randn(160, 10)
y = (x[:, 0] - x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
trainer = Trainer(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2)), loader)
for e in range(4):
    print(e, trainer.train_epoch())
