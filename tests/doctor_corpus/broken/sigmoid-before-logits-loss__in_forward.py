import torch
import torch.nn as nn

torch.manual_seed(0)


class BinaryClassifier(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer_1 = nn.Linear(n, 24)
        self.layer_out = nn.Linear(24, 1)
        self.batchnorm1 = nn.BatchNorm1d(24)

    def forward(self, inputs):
        x = torch.relu(self.layer_1(inputs))
        x = self.batchnorm1(x)
        x = self.layer_out(x)
        return torch.sigmoid(x)  # BUG: sigmoid-before-logits-loss


model = BinaryClassifier(6)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
X = torch.randn(96, 6)
y = (X[:, 0] > 0).float().unsqueeze(1)
for e in range(10):
    for i in range(0, 96, 32):
        optimizer.zero_grad()
        loss = criterion(model(X[i:i + 32]), y[i:i + 32])
        loss.backward()
        optimizer.step()
    print(e, loss.item())
