import torch
import torch.nn as nn
import torch.nn.functional as F


def block(channels_in, channels_out):
    return nn.Sequential(
        nn.Conv1d(channels_in, channels_out, 3, padding=1),
        nn.BatchNorm1d(channels_out),
        nn.ReLU(),
    )


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = block(2, 8)
        self.branch = block(8, 8)
        self.shortcut = block(8, 8)  # BUG: unused-parameter
        self.norms = nn.ParameterList([nn.Parameter(torch.ones(8, 1)) for _ in range(2)])
        self.classify = nn.Linear(8, 3)

    def forward(self, signal):
        h = self.stem(signal) * self.norms[0]
        h = h + self.branch(h) * self.norms[1]
        return self.classify(h.mean(-1))


torch.manual_seed(0)
net = Encoder()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
signals, classes = torch.randn(48, 2, 16), torch.randint(0, 3, (48,))
for i in range(0, 48, 12):
    loss = F.cross_entropy(net(signals[i : i + 12]), classes[i : i + 12])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
