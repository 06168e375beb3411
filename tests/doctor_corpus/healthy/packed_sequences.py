import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(0)
gru = nn.GRU(4, 10, batch_first=True)
fc = nn.Linear(10, 2)
opt = torch.optim.Adam([*gru.parameters(), *fc.parameters()], lr=1e-2)
lengths = torch.tensor([7, 5, 3, 2])
x = torch.randn(4, 7, 4)
y = torch.tensor([0, 1, 0, 1])
for i in range(12):
    packed = pack_padded_sequence(x, lengths, batch_first=True)
    out, h = gru(packed)
    seq, _ = pad_packed_sequence(out, batch_first=True)
    mask = torch.arange(7)[None] < lengths[:, None]
    pooled = (seq * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    loss = nn.functional.cross_entropy(fc(pooled), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
