import torch
import torch.nn as nn

torch.manual_seed(80)


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Linear(4, 8)
        self.update = nn.Linear(12, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x, edges):
        msgs = torch.relu(self.message(x))
        pooled = torch.zeros(x.size(0), 8)
        for src, dst in edges:
            for k in range(8):
                pooled[dst, k] += msgs[src, k].item()  # BUG: left-the-graph
        return self.out(torch.tanh(self.update(torch.cat([x, pooled], 1)))).mean()


net = GraphNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(12):
    x = torch.randn(5, 4)
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
    loss = (net(x, edges) - x.mean()).pow(2)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
