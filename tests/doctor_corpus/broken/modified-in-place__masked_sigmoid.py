import torch
import torch.nn as nn

torch.manual_seed(0)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 12)
        self.b = nn.Linear(12, 1)

    def forward(self, x, mask):
        h = torch.sigmoid(self.a(x))  # BUG: modified-in-place
        keep = mask.float()

        h *= keep  # BUG: modified-in-place
        return self.b(h)


net = Gate()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(20, 6), torch.randn(20, 1)
for epoch in range(5):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x, torch.rand(20, 12) > 0.3), y)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
