import torch

# fit the centre and radius of a circle to noisy points
torch.manual_seed(8)
phi = torch.rand(100) * 6.28
pts = torch.stack([2 + 1.5 * phi.cos(), -1 + 1.5 * phi.sin()], 1) + 0.02 * torch.randn(100, 2)

cx = torch.tensor(0.1, requires_grad=True)
cy = torch.tensor(0.1, requires_grad=True)
r = torch.tensor(1.0, requires_grad=True)
opt = torch.optim.Adam([cx, cy, r], lr=0.05)

for i in range(60):
    centre = torch.tensor([cx, cy])  # BUG: left-the-graph
    dist = ((pts - centre) ** 2).sum(1).sqrt()
    loss = ((dist - r) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(cx.item(), cy.item(), r.item(), loss.item())
