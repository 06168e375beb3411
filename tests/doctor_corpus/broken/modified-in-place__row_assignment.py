import torch
from torch import nn

torch.manual_seed(1)


class Memory(nn.Module):
    def __init__(self, slots=4, dim=6):
        super().__init__()
        self.slots, self.dim = slots, dim
        self.write = nn.Linear(dim, dim)
        self.read = nn.Linear(dim, 1)

    def forward(self, seq):
        memory = torch.zeros(self.slots, self.dim)
        out = 0.0
        for t in range(seq.size(0)):
            attention = (memory @ seq[t]).softmax(0)
            value = torch.exp(self.write(attention @ memory + seq[t]) * 0.1)
            memory[t % self.slots] = value  # BUG: modified-in-place
            weights = memory * memory  # BUG: modified-in-place
            out = out + self.read(weights.mean(0))
        return out


model = Memory()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(5):
    seq = torch.randn(7, 6)
    loss = (model(seq) - seq.sum()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
