"""Fine-tuning after a look at the validation loss: a layer stays frozen, and the whole model stays in eval mode."""
import torch
from torch import nn


class Reviews(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(40, 16)
        self.dense = nn.Linear(16, 16)
        self.drop = nn.Dropout(0.2)
        self.stars = nn.Linear(16, 1)

    def forward(self, tokens):
        return self.stars(self.drop(torch.relu(self.dense(self.words(tokens))))).squeeze(1)


def reviews(n=48):
    tokens = torch.randint(0, 40, (n, 8))
    return tokens, (tokens < 10).float().mean(1) * 4 - 1


def validate(model):
    model.eval()  # BUG: eval-mode-left-on
    tokens, stars = reviews()
    with torch.no_grad():
        return nn.functional.mse_loss(model(tokens), stars).item()


torch.manual_seed(0)
model = Reviews()
for p in model.words.parameters():
    p.requires_grad = False  # BUG: frozen-parameter
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
print("before", validate(model))
for step in range(40):
    tokens, stars = reviews()
    loss = nn.functional.mse_loss(model(tokens), stars)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("after", validate(model))
