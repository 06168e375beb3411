import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 16, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def train_one(model, opt, pressure, y):
    opt.zero_grad()
    pred = model(pressure)  # BUG: unnormalised-input
    loss = F.mse_loss(pred, y)
    loss.backward()
    opt.step()
    return loss.item()


pressure = 101325 + 400 * torch.randn(48, 8, 3)  # pascal
y = (pressure[:, -1, :1] - 101325) / 400
model = Recurrent()
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(15):
    print(epoch, train_one(model, opt, pressure, y))
