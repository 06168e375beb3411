import torch
import torch.nn as nn

torch.manual_seed(0)
X = torch.randn(100, 3)
y = X @ torch.tensor([[1.5], [-2.0], [0.7]]) + 0.3

model = nn.Linear(3, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for epoch in range(50):
    output = model(X)
    loss = criterion(output, y)
    loss.backward()  # BUG: missing-zero-grad
    optimizer.step()
    if epoch % 10 == 0:
        print(f"Epoch {epoch}, loss {loss.item():.4f}")
