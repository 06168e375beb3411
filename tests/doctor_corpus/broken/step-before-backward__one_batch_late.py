import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)


def fit(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.step()  # BUG: step-before-backward
            optimizer.zero_grad()
            loss.backward()
        print(epoch, loss.item())


x = torch.randn(60, 4)
y = (x[:, 0] > 0).long()
fit(nn.Linear(4, 2), DataLoader(TensorDataset(x, y), batch_size=20), 5)
