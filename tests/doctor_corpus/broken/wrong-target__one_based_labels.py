import torch
import torch.nn as nn

torch.manual_seed(0)
features = torch.randn(80, 5)
stars = torch.randint(1, 6, (80,))  # reviews have 1 to 5 stars

model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for epoch in range(5):
    optimizer.zero_grad()
    scores = model(features)
    loss = criterion(scores, stars)  # BUG: wrong-target
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
