"""a list of the embeddings of all batches, each with its graph"""
import torch
import torch.nn as nn

torch.manual_seed(2)
enc = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 4))
opt = torch.optim.Adam(enc.parameters(), lr=1e-3)
bank = []
for step in range(10):
    z = enc(torch.randn(8, 6)).tanh()
    bank.append(z)
    keys = torch.cat(bank)  # BUG: graph-kept-alive
    loss = torch.logsumexp(z @ keys.t(), 1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
