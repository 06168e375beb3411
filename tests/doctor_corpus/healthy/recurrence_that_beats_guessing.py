import torch
from torch import nn

torch.manual_seed(0)
rnn, head = nn.RNN(3, 16, batch_first=True), nn.Linear(16, 3)
nn.init.normal_(rnn.weight_hh_l0, std=0.05)
opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=1e-2)
for step in range(60):
    series = torch.randn(32, 40, 3)
    label = series[:, -1].argmax(1)  # only the last step matters: the first ones may be forgotten
    states, _ = rnn(series)
    loss = nn.functional.cross_entropy(head(states[:, -1]), label)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
