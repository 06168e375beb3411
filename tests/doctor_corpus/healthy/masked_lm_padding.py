import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(32)


class MaskedModel(nn.Module):
    def __init__(self, vocab=5000, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 4, 48, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.cls = nn.Linear(dim, 2)

    def forward(self, ids):
        pad = ids == 0
        h = self.enc(self.emb(ids), src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).float()
        return self.cls((h * keep).sum(1) / keep.sum(1).clamp(min=1))


ids = torch.randint(1, 5000, (48, 10))
for row in range(48):
    ids[row, torch.randint(4, 10, (1,)).item():] = 0
y = (ids[:, 0] > 2500).long()
model = MaskedModel()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(8):
    model.train()
    for a, b in zip(ids.split(16), y.split(16)):
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        opt.step()
    print(epoch, loss.item())
