import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
        self.reg = nn.Linear(16, 1)
        self.cls = nn.Linear(16, 3)

    def forward(self, x):
        h = self.shared(x)
        return self.reg(h).squeeze(1), self.cls(h)


model = MultiTask()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(32, 8)
value, label = x.sum(1), x[:, :3].argmax(1)
for epoch in range(5):
    optimizer.zero_grad()
    value_hat, logits = model(x)
    loss_value = F.mse_loss(value_hat, value)
    loss_label = F.cross_entropy(logits, label)
    loss_value.backward()  # BUG: backward-twice
    print(epoch, loss_value.item())
    # the second task
    loss_label.backward()  # BUG: backward-twice
    optimizer.step()
