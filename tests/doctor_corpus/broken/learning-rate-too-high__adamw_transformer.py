import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(97)


class TinyFormer(nn.Module):
    def __init__(self, vocab=16, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.block = nn.TransformerEncoderLayer(dim, 4, 48, dropout=0.0, batch_first=True, norm_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, x):
        return self.out(self.block(self.emb(x)))


config = {"lr": 1.0, "betas": (0.9, 0.98)}
model = TinyFormer()
opt = torch.optim.AdamW(model.parameters(), **config)  # BUG: learning-rate-too-high
for step in range(20):
    x = torch.randint(0, 16, (8, 6))
    loss = F.cross_entropy(model(x).transpose(1, 2), (x + 1) % 16)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
