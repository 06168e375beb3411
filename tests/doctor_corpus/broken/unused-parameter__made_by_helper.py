import math

import torch

generator = torch.Generator().manual_seed(5)


def weight(fan_in, fan_out):
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    values = torch.empty(fan_in, fan_out)
    values.uniform_(-bound, bound, generator=generator)
    return values


def layer(fan_in, fan_out):
    return weight(fan_in, fan_out), torch.zeros(fan_out)


w_in, b_in = layer(4, 20)
w_mid, b_mid = layer(20, 20)
w_gate, b_gate = layer(20, 20)  # BUG: unused-parameter
w_out, b_out = layer(20, 1)
trainable = [w_in, b_in, w_mid, b_mid, w_gate, b_gate, w_out, b_out]
for tensor in trainable:
    tensor.requires_grad = True

optimizer = torch.optim.SGD(trainable, lr=0.05)
x = torch.randn(90, 4, generator=generator)
y = (x[:, :1] * x[:, 1:2]).tanh()
for epoch in range(25):
    h = torch.relu(x @ w_in + b_in)
    h = torch.relu(h @ w_mid + b_mid)
    loss = (h @ w_out + b_out - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
