import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(3)


class XorNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(2, 8)
        self.output = nn.Linear(8, 1)
        self.reset_parameters()

    def reset_parameters(self):
        for layer in (self.hidden, self.output):
            nn.init.constant_(layer.weight, 0.5)  # BUG: zero-initialised
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        return self.output(torch.tanh(self.hidden(x))).squeeze(-1)


x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
y = torch.tensor([0.0, 1.0, 1.0, 0.0])
net = XorNet()
opt = torch.optim.Adam(net.parameters(), lr=0.05)
for step in range(60):
    opt.zero_grad()
    loss = F.binary_cross_entropy_with_logits(net(x), y)
    loss.backward()
    opt.step()
print("xor loss", loss.item())
