import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, lr=0.05):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr)
        self.loss = nn.MSELoss()

    def training_step(self, batch):
        x, y = batch
        return self.loss(self.model(x), y)

    def optimize(self, loss):
        self.opt.step()  # BUG: step-before-backward
        self.opt.zero_grad()
        loss.backward()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for batch in loader:
                loss = self.training_step(batch)
                self.optimize(loss)
            print(epoch, loss.item())


torch.manual_seed(28)
x = torch.randn(80, 3)
Trainer(nn.Linear(3, 1)).fit(DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16), 4)
