import torch

torch.manual_seed(14)
x = torch.randn(100, 3)
y = (x[:, :1] * x[:, 1:2]).tanh()

W1 = torch.zeros(3, 16, requires_grad=True)  # BUG: zero-initialised
b1 = torch.zeros(16, requires_grad=True)
W2 = torch.zeros(16, 1, requires_grad=True)  # BUG: zero-initialised
b2 = torch.zeros(1, requires_grad=True)
params = [W1, b1, W2, b2]
optimizer = torch.optim.SGD(params, lr=0.1)

for epoch in range(25):
    hidden = torch.tanh(x @ W1 + b1)
    prediction = hidden @ W2 + b2
    loss = torch.nn.functional.mse_loss(prediction, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
