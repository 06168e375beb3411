import torch
import torch.nn as nn

torch.manual_seed(0)


class CharModel(nn.Module):
    def __init__(self, vocab=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, 8)
        self.out = nn.Linear(8, vocab)

    def forward(self, tokens):
        return torch.softmax(self.out(self.embed(tokens)), dim=-1)


def sequence_likelihood(probs, nxt):
    picked = probs.gather(-1, nxt.unsqueeze(-1)).squeeze(-1)
    return picked.prod(dim=-1)  # BUG: underflow


text = torch.randint(0, 12, (4, 121))
text[:, 1::2] = (text[:, 0:-1:2] + 1) % 12
model = CharModel()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(20):
    p = model(text[:, :-1])
    loss = 1 - sequence_likelihood(p, text[:, 1:]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
