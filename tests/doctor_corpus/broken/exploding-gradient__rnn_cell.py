import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(151)


class ReluRNN(nn.Module):
    def __init__(self, n_in=2, n_h=20):
        super().__init__()
        self.n_h = n_h
        self.cell = nn.RNNCell(n_in, n_h, nonlinearity="relu")
        self.fc = nn.Linear(n_h, 1)
        nn.init.eye_(self.cell.weight_hh)
        self.cell.weight_hh.data *= 1.5

    def forward(self, seq):
        h = seq.new_zeros(seq.size(0), self.n_h)
        for x in seq.unbind(1):
            h = self.cell(x, h)  # BUG: exploding-gradient
        return self.fc(h).squeeze(1)


model = ReluRNN()
opt = torch.optim.Adam(model.parameters(), lr=1e-4)
for step in range(10):
    seq = torch.rand(16, 35, 2)
    target = seq[:, :, 0].sum(1)
    loss = F.l1_loss(model(seq), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
