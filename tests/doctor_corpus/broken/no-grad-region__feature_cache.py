import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(181)


class Retrieval(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_net = nn.Linear(8, 6)
        self.doc_net = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 6))

    def encode_docs(self, docs):
        vectors = []
        with torch.no_grad():
            for d in docs.split(10):
                vectors.append(self.doc_net(d))  # BUG: no-grad-region
        return torch.cat(vectors)

    def forward(self, q, docs):
        return self.query_net(q) @ self.encode_docs(docs).t()


model = Retrieval()
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
docs = torch.randn(40, 8)
for step in range(15):
    idx = torch.randint(0, 40, (16,))
    loss = F.cross_entropy(model(docs[idx] + 0.1 * torch.randn(16, 8), docs), idx)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
