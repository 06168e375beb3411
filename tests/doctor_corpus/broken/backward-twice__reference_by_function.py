"""a style reference, computed once by the function that the loop uses as well"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def style(features):
    flat = features.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.shape[2]


torch.manual_seed(3)
net = nn.Sequential(nn.Conv1d(2, 6, 3), nn.Tanh(), nn.Conv1d(6, 4, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
wanted = style(net(torch.randn(1, 2, 20)))
picture = torch.randn(1, 2, 20)
for it in range(8):
    opt.zero_grad()
    loss = F.mse_loss(style(net(picture)), wanted)
    loss.backward()  # BUG: backward-twice
    opt.step()
