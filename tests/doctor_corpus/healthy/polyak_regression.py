import numpy as np
import torch


def main():
    rng = np.random.RandomState(0)
    X = rng.randn(200, 5).astype(np.float32)
    true = np.array([1.0, 0.0, -2.0, 0.5, 3.0], dtype=np.float32)
    t = torch.from_numpy(X @ true + 0.1 * rng.randn(200).astype(np.float32))
    X = torch.from_numpy(X)
    w = torch.zeros(5, requires_grad=True)
    avg = torch.zeros(5)
    for i in range(100):
        idx = torch.from_numpy(rng.choice(200, 20))
        loss = (X[idx] @ w - t[idx]).pow(2).mean() + 1e-3 * w.abs().sum()
        (g,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w -= 0.05 * g
            avg += (w - avg) / (i + 1)
    print(avg.numpy().round(2), loss.item())


main()
