import torch
from torch import nn

torch.manual_seed(1)
classifier = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4), nn.Softmax(dim=-1))
opt = torch.optim.Adam(classifier.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)


def step(x, y):
    probabilities = classifier(x)  # BUG: double-softmax
    batch_loss = 0.0
    batch_loss = loss_fn(probabilities, y)
    opt.zero_grad()
    batch_loss.backward()
    opt.step()
    return batch_loss.item()


x = torch.randn(100, 8)
y = x[:, :4].argmax(1)
for epoch in range(25):
    print(epoch, step(x, y))
