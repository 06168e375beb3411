import torch
from torch import nn


class Recall(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(6, 16)
        self.rnn = nn.RNN(16, 16, num_layers=1, batch_first=True)
        for n, p in self.rnn.named_parameters():
            if "weight_hh" in n:
                nn.init.normal_(p, std=0.05)
        self.fc = nn.Linear(16, 6)

    def forward(self, ids):
        out, _ = self.rnn(self.emb(ids))  # BUG: vanishing-gradient
        return self.fc(out[:, -1])


torch.manual_seed(0)
net = Recall()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(50):
    first = torch.randint(1, 6, (32, 1))
    ids = torch.cat([first, torch.zeros(32, 30, dtype=torch.long)], 1)
    loss = nn.functional.cross_entropy(net(ids), first.squeeze(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
