import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(156)


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, pad):
        scores = self.q(x) @ self.k(x).transpose(1, 2)
        weights = torch.softmax(scores, dim=-1)  # BUG: modified-in-place
        v = self.v(x)
        weights.masked_fill_(pad[:, None, :], 0.0)  # BUG: modified-in-place
        return weights @ v


attn, head = Attention(8), nn.Linear(8, 2)
opt = torch.optim.Adam([*attn.parameters(), *head.parameters()], lr=1e-3)
for step in range(4):
    x = torch.randn(4, 5, 8)
    pad = torch.zeros(4, 5, dtype=torch.bool)
    pad[:, 4] = True
    loss = F.cross_entropy(head(attn(x, pad).mean(1)), torch.randint(0, 2, (4,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
