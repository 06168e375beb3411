import torch

torch.manual_seed(0)
# k-means-like soft clustering by gradient descent: (N,1,D) - (1,K,D) on purpose
X = torch.cat([torch.randn(40, 2) + m for m in (-3, 0, 3)])
C = torch.randn(3, 2, requires_grad=True)
opt = torch.optim.Adam([C], lr=0.1)
for i in range(50):
    d = ((X[:, None, :] - C[None, :, :]) ** 2).sum(-1)
    loss = (torch.softmax(-d, 1) * d).sum(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item(), C)
