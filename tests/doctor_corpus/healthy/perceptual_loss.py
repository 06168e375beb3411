import torch
import torch.nn as nn

# perceptual loss by a network that is never trained, not frozen explicitly, outside of the optimizer
torch.manual_seed(0)
vgg = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3)).eval()
gen = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 1, 3, padding=1))
opt = torch.optim.Adam(gen.parameters(), lr=1e-2)
low = torch.rand(4, 1, 10, 10)
high = low.sqrt()
for i in range(15):
    loss = nn.functional.mse_loss(vgg(gen(low)), vgg(high).detach())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
