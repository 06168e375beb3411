import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(10)


class ProtoNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, support, query):
        prototypes = self.encoder(support).mean(1)
        q = self.encoder(query)
        return -((q[:, None, :] - prototypes[None, :, :]) ** 2).sum(-1)


net = ProtoNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
centers = torch.randn(5, 8) * 2
for episode in range(30):
    support = centers[:, None] + 0.5 * torch.randn(5, 4, 8)
    labels = torch.randint(0, 5, (20,))
    query = centers[labels] + 0.5 * torch.randn(20, 8)
    loss = F.cross_entropy(net(support, query), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
