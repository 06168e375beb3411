import torch
from torch import nn

torch.manual_seed(5)
words = torch.randint(0, 12, (60, 6))
kinds = (words[:, 0] > 5).long()
embed, reader, out = nn.Embedding(12, 8), nn.GRU(8, 8, num_layers=2, bidirectional=True), nn.Linear(8, 2)
parameters = [*embed.parameters(), *reader.parameters(), *out.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01)


def scores(batch):
    lengths = torch.full((len(batch),), 6)
    packed = nn.utils.rnn.pack_padded_sequence(embed(batch.t()), lengths.data.cpu().numpy())
    _, states = reader(packed)
    return out(states[-1])  # backwards alone: the other direction of the last layer gets zeros


for epoch in range(3):
    for start in range(0, 60, 20):
        loss = nn.functional.cross_entropy(scores(words[start : start + 20]), kinds[start : start + 20])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    picked = scores(words[:1]).data.max(1, keepdim=True)[1]
    print(epoch, ["low", "high"][picked.cpu().numpy()[0][0]])
