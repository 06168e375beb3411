"""Encoder and decoder with an optimizer each: one is never cleared, the other never steps."""
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 3))
decoder = nn.Linear(3, 10)
slow = torch.optim.SGD(encoder.parameters(), lr=0.02)
fast = torch.optim.SGD(decoder.parameters(), lr=0.1)
sources = torch.randn(3, 10)

for step in range(40):
    signal = torch.randn(32, 3) @ sources
    restored = decoder(encoder(signal))
    loss = nn.functional.mse_loss(restored, signal)
    fast.zero_grad()
    loss.backward()  # BUG: missing-step  # BUG: missing-zero-grad
    slow.step()
    if step % 10 == 0:
        print(step, loss.item())
