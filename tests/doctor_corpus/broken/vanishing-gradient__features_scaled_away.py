import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Linear(8, 32), nn.Linear(32, 3)
        self.mix, self.sift = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        h = torch.relu(self.embed(x))
        h = torch.relu(self.mix(h * 1e-7))  # BUG: vanishing-gradient
        return self.out(torch.relu(self.sift(h)))


torch.manual_seed(0)
centres = torch.randn(3, 8) * 3
kinds = torch.randint(0, 3, (150,))
x = centres[kinds] + torch.randn(150, 8)
model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(30):
    loss = nn.functional.cross_entropy(model(x), kinds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
