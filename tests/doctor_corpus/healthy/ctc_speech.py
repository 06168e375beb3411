import torch
import torch.nn as nn

torch.manual_seed(64)


class Acoustic(nn.Module):
    def __init__(self, vocab=6):
        super().__init__()
        self.rnn = nn.GRU(8, 24, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(48, vocab)

    def forward(self, x):
        return self.fc(self.rnn(x)[0]).log_softmax(-1)


model = Acoustic()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
targets = torch.randint(1, 6, (4, 4))
base = torch.randn(6, 8) * 2
frames = base[targets.repeat_interleave(3, dim=1)]
for step in range(30):
    x = frames + 0.1 * torch.randn_like(frames)
    logp = model(x)
    onehot = targets.repeat_interleave(3, dim=1)
    loss = nn.functional.nll_loss(logp.transpose(1, 2), onehot)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 1.0)
    opt.step()
print(loss.item())
