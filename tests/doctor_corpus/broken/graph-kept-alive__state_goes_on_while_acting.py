import torch
from torch import nn

torch.manual_seed(0)


class Player(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory, self.policy = nn.LSTM(3, 8), nn.Linear(8, 2)

    def forward(self, seen, state):
        out, state_after = self.memory(seen, state)  # BUG: graph-kept-alive
        return self.policy(out), state_after


player = Player()
optimizer = torch.optim.Adam(player.parameters(), lr=1e-3)
state = (torch.zeros(1, 1, 8), torch.zeros(1, 1, 8))
for update in range(12):
    began = tuple(part.detach() for part in state)
    seen = torch.randn(5, 1, 3)
    for t in range(5):  # acting records its graph, and hands it on to the next update
        _, state = player(seen[t : t + 1], state)
    scores, _ = player(seen, began)
    loss = nn.functional.cross_entropy(scores.squeeze(1), (seen.sum(-1).squeeze(1) > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
