import torch
from torch import nn

torch.manual_seed(0)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(2, 12, batch_first=True)
        self.out = nn.Linear(12, 1)
        nn.init.constant_(self.rnn.bias_hh_l0, 15.0)  # meant 0.15

    def forward(self, x):
        states, _ = self.rnn(x)  # BUG: saturated-activation
        return self.out(states[:, -1])


model = Counter()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(30):
    x = torch.randn(16, 7, 2)
    loss = nn.functional.mse_loss(model(x), x.sum(1)[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
