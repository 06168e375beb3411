import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(68)


class Counter(nn.Module):
    def __init__(self, hidden=20):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, num_layers=2, dropout=0.1)
        self.fc = nn.Linear(hidden, 1)
        for name, p in self.lstm.named_parameters():
            if "weight_hh" in name:
                nn.init.orthogonal_(p)
            elif "bias" in name:
                nn.init.zeros_(p)
                p.data[hidden:2 * hidden].fill_(1.0)

    def forward(self, x):
        h0 = x.new_zeros(2, x.size(1), 20)
        out, _ = self.lstm(x, (h0, torch.zeros_like(h0)))
        return self.fc(out[-1]).squeeze(1)


model = Counter()
opt = torch.optim.RMSprop(model.parameters(), lr=3e-3)
for step in range(30):
    x = (torch.rand(10, 24, 1) > 0.5).float()
    loss = F.mse_loss(model(x), x.sum((0, 2)) / 10)
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
print(loss.item())
