import torch

# gaussian process marginal likelihood, (N,1) - (1,N) distances
torch.manual_seed(0)
x = torch.linspace(0, 5, 30, dtype=torch.float64)
y = torch.sin(x) + 0.05 * torch.randn(30, dtype=torch.float64)
log_l = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
log_s = torch.tensor(-2.0, dtype=torch.float64, requires_grad=True)
opt = torch.optim.Adam([log_l, log_s], lr=0.05)
for i in range(40):
    K = torch.exp(-0.5 * (x[:, None] - x[None, :]) ** 2 / log_l.exp() ** 2)
    K = K + (log_s.exp() ** 2 + 1e-6) * torch.eye(30, dtype=torch.float64)
    L = torch.linalg.cholesky(K)
    a = torch.cholesky_solve(y.unsqueeze(1), L)
    nll = 0.5 * (y.unsqueeze(0) @ a).squeeze() + L.diagonal().log().sum()
    opt.zero_grad()
    nll.backward()
    opt.step()
print(nll.item())
