import torch
import torch.nn as nn

torch.manual_seed(0)
emb = nn.Embedding(20, 16, padding_idx=0)
q, k, v = (nn.Linear(16, 16) for _ in range(3))
head = nn.Linear(16, 2)
params = [p for m in (emb, q, k, v, head) for p in m.parameters()]
opt = torch.optim.Adam(params, lr=1e-3)
ids = torch.randint(1, 20, (10, 5))
ids[3] = 0  # an empty sentence
y = torch.randint(0, 2, (10,))
for i in range(5):
    h = emb(ids)
    score = q(h) @ k(h).transpose(1, 2) / 4.0
    score = score.masked_fill((ids == 0)[:, None, :], float("-inf"))
    att = torch.softmax(score, dim=-1)  # BUG: division-by-zero
    loss = nn.functional.cross_entropy(head((att @ v(h)).mean(1)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())
