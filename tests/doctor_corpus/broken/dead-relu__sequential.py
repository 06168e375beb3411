import torch
from torch import nn

torch.manual_seed(11)


def init(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
        m.bias.data.fill_(-9.0)


mlp = nn.Sequential(nn.Linear(14, 40), nn.ReLU(), nn.Linear(40, 2))
mlp[0].apply(init)
optimizer = torch.optim.Adam(mlp.parameters(), lr=1e-3)
data, labels = torch.randn(128, 14), torch.randint(0, 2, (128,))
for epoch in range(6):
    for i in range(0, 128, 32):
        out = mlp(data[i:i + 32])  # BUG: dead-relu
        loss = nn.functional.cross_entropy(out, labels[i:i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
