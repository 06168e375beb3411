import torch
import torch.nn as nn

torch.manual_seed(12)


class BucketModel(nn.Module):
    """Puts a learned score into buckets and looks up an embedding."""

    def __init__(self, buckets=10):
        super().__init__()
        self.buckets = buckets
        self.to_score = nn.Linear(6, 1)
        self.table = nn.Embedding(buckets, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        position = torch.sigmoid(self.to_score(x)).squeeze(1) * (self.buckets - 1)
        bucket = position.long()  # BUG: non-differentiable-op
        return self.out(self.table(bucket)).squeeze(1)


net = BucketModel()
opt = torch.optim.Adam(net.parameters(), lr=0.02)
x = torch.randn(80, 6)
y = torch.tanh(x.sum(1))
for epoch in range(15):
    opt.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    opt.step()
    print(epoch, round(loss.item(), 4))
