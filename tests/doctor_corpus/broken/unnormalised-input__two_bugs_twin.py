"""Two-layer graph convolution over a random citation graph."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphConv(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, adjacency, x):
        return adjacency @ (x @ self.weight)


class GCN(nn.Module):
    def __init__(self, n_in, hidden, classes):
        super().__init__()
        self.inp = GraphConv(n_in, hidden)
        self.mid1 = GraphConv(hidden, hidden)
        self.mid2 = GraphConv(hidden, hidden)  # BUG: unused-parameter
        self.head = nn.Linear(hidden, classes)

    def forward(self, adjacency, x):
        x = F.elu(self.inp(adjacency, x))
        x = F.elu(self.mid1(adjacency, x))
        x = F.elu(self.mid1(adjacency, x))
        return self.head(x)


def build_graph(n=150, classes=3):
    labels = torch.randint(0, classes, (n,))
    same = labels[:, None] == labels[None, :]
    edges = (torch.rand(n, n) < torch.where(same, 0.10, 0.01)).float()
    edges = ((edges + edges.T) > 0).float().fill_diagonal_(1.0)
    degree = edges.sum(1)
    adjacency = edges / degree.sqrt()[:, None] / degree.sqrt()[None, :]
    words = torch.randn(n, 10) + F.one_hot(labels, 10) * 1.5
    year = torch.randint(1985, 2024, (n, 1)).float()
    citations = torch.exp(torch.randn(n, 1) * 1.5 + 8.0)
    features = torch.cat([words, year, citations], dim=1)
    return adjacency, features, labels


def train(steps=40):
    adjacency, features, labels = build_graph()
    train_mask = torch.rand(len(labels)) < 0.5
    model = GCN(features.shape[1], 24, 3)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    for step in range(steps):
        opt.zero_grad()
        logits = model(adjacency, features)  # BUG: unnormalised-input
        loss = F.cross_entropy(logits[train_mask], labels[train_mask])
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    torch.manual_seed(4)
    train()
