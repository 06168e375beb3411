import torch
from torch import nn

torch.manual_seed(26)
encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
decoder = nn.Linear(16, 8)
enc_opt = torch.optim.SGD(encoder.parameters(), lr=0.02)
dec_opt = torch.optim.SGD(decoder.parameters(), lr=0.02)
data = torch.randn(128, 8)
for step in range(40):
    x = data[(step % 4) * 32:(step % 4 + 1) * 32]
    enc_opt.zero_grad()
    enc_opt.zero_grad()
    loss = nn.functional.mse_loss(decoder(encoder(x)), x)
    loss.backward()  # BUG: missing-zero-grad
    enc_opt.step()
    dec_opt.step()
    if step % 10 == 0:
        print(step, loss.item())
