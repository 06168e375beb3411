"""A text encoder and a linear head with an optimizer each; the encoder's rate is the wrong one."""
import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.EmbeddingBag(60, 16)
        self.mix = nn.Linear(16, 16)

    def forward(self, words):
        return torch.relu(self.mix(self.embed(words)))


encoder = Encoder()
head = nn.Linear(16, 1)
criterion = nn.MSELoss()
optimizers = {
    "encoder": torch.optim.SGD(encoder.parameters(), lr=400.0),  # BUG: learning-rate-too-high
    "bias": torch.optim.SGD([head.bias], lr=0.01),
    "head": torch.optim.SGD([head.weight], lr=0.01),
}

for step in range(40):
    words = torch.randint(0, 60, (32, 7))
    length = words.float().mean(1, keepdim=True) / 30 - 1
    loss = criterion(head(encoder(words)), length)
    for optimizer in optimizers.values():
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers.values():
        optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
