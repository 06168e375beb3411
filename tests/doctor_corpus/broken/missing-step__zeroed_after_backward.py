import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_one_epoch(model, loader, criterion, optimizer):
    model.train()
    for images, target in loader:
        output = model(images)
        loss = criterion(output, target)
        loss.backward()

        optimizer.zero_grad(set_to_none=False)  # BUG: missing-step
        optimizer.step()
    return loss.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", default=3, type=int)
    args = p.parse_args([])
    torch.manual_seed(100)
    images = torch.randn(48, 1, 6, 6)
    target = torch.randint(0, 2, (48,))
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(TensorDataset(images, target), batch_size=12)
    for epoch in range(args.epochs):
        print(epoch, train_one_epoch(model, loader, nn.CrossEntropyLoss(), optimizer))


main()
