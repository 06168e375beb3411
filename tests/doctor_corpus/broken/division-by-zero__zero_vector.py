import torch
from torch import nn

torch.manual_seed(2)


class Cosine(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 6, bias=False)

    def unit(self, v):
        return v / v.norm(dim=-1, keepdim=True)  # BUG: division-by-zero

    def forward(self, a, b):
        return (self.unit(self.proj(a)) * self.unit(self.proj(b))).sum(-1)


siamese = Cosine()
optimizer = torch.optim.SGD(siamese.parameters(), lr=0.1)
left, right = torch.randn(30, 8), torch.randn(30, 8)
right[4] = 0.0  # user without any history
same = (left[:, 0] * right[:, 0] > 0).float() * 2 - 1
for epoch in range(6):
    similarity = siamese(left, right)
    loss = nn.functional.mse_loss(similarity, same)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
