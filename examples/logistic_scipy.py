"""Logistic regression by SciPy's L-BFGS-B: Pellucid gives the gradient, SciPy decides where to go.

    python examples/logistic_scipy.py

SciPy wants a function from a float64 vector to a value and a gradient vector; `from_numpy` and `numpy` share memory
with it, so nothing is copied at the border.

prints

    12 iterations, 14 gradients, loss 0.2459
    largest gradient at the end: 4e-07
       true weights +2.31  -0.44  -3.27  +0.85  -1.63  -2.10  +0.61
    learned weights +2.21  -0.41  -3.23  +0.75  -1.54  -1.96  +0.49
    the true weights themselves would be right in 89.4%
    accuracy on unseen points: 89.6%
"""

import sys

import scipy.optimize

import pellucid as torch

F = torch.nn.functional
PENALTY = 1e-4


def make_data(count: int, features: int):
    """Points, the yes or no of each, and the weights behind them (the last one is the offset)."""
    weights = torch.randn(features + 1, dtype=torch.float64) * 1.5
    points = torch.randn(count, features, dtype=torch.float64)
    chances = torch.sigmoid(points @ weights[:-1] + weights[-1])
    return points, torch.bernoulli(chances), weights


def loss_function(weights, points, answers):
    scores = points @ weights[:-1] + weights[-1]
    return F.binary_cross_entropy_with_logits(scores, answers) + PENALTY * (weights**2).sum()


def fit(points, answers):
    """The weights of least loss, and what SciPy says about its search."""

    def value_and_gradient(vector):
        weights = torch.from_numpy(vector).requires_grad_()
        loss = loss_function(weights, points, answers)
        loss.backward()
        return loss.item(), weights.grad.numpy()

    start = torch.zeros(points.shape[1] + 1, dtype=torch.float64).numpy()
    result = scipy.optimize.minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-8})
    return torch.from_numpy(result.x), result


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    points, answers, truth = make_data(500 if quick else 5_000, features=6)
    cut = len(answers) * 4 // 5
    weights, result = fit(points[:cut], answers[:cut])

    print(f"{result.nit} iterations, {result.nfev} gradients, loss {result.fun:.4f}")
    print(f"largest gradient at the end: {abs(result.jac).max():.0e}")
    print("   true weights", "  ".join(f"{weight:+.2f}" for weight in truth.tolist()))
    print("learned weights", "  ".join(f"{weight:+.2f}" for weight in weights.tolist()))
    right = ((points[cut:] @ weights[:-1] + weights[-1] > 0) == (answers[cut:] > 0.5)).double().mean().item()
    best = ((points[cut:] @ truth[:-1] + truth[-1] > 0) == (answers[cut:] > 0.5)).double().mean().item()
    print(f"the true weights themselves would be right in {best:.1%}")
    print(f"accuracy on unseen points: {right:.1%}")


if __name__ == "__main__":
    main()
