import torch
import torch.nn as nn

torch.manual_seed(2)
LEARNING_RATE = 1e-8

net = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(4, 2),
)
optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE, momentum=0.9)  # BUG: learning-rate-too-low
loss_function = nn.CrossEntropyLoss()
for iteration in range(40):
    target = torch.randint(0, 2, (20,))
    images = torch.rand(20, 1, 6, 6) + target.view(-1, 1, 1, 1)
    optimizer.zero_grad()
    loss = loss_function(net(images), target)
    loss.backward()
    optimizer.step()
    if iteration % 10 == 0:
        print(iteration, loss.item())
