import torch
import torch.nn as nn

torch.manual_seed(0)


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        self.scorer = nn.Linear(16, 1)

    def forward(self, query, doc):
        with torch.no_grad():
            q = self.encoder(query)  # BUG: no-grad-region
            d = self.encoder(doc)
        return self.scorer(torch.cat([q, d], dim=1)).squeeze(1)


model = Matcher()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
bce = nn.BCEWithLogitsLoss()
for step in range(30):
    query, doc = torch.randn(32, 16), torch.randn(32, 16)
    relevant = ((query * doc).sum(1) > 0).float()
    loss = bce(model(query, doc), relevant)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
