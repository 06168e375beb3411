"""A physics-informed network solves u″ + u = 0 with u(0) = 0 and u′(0) = 1, from the equation alone.

    python examples/pinn.py

Nothing shows it the solution, sin x: the loss is how badly the network breaks the equation at 64 points, and how
far it is from the two initial values. So the loss holds second derivatives of the network, and training
differentiates them once more.

prints

    round  1   loss 9.21e-01
    round  5   loss 1.78e-02
    round 10   loss 3.32e-04
    round 15   loss 8.32e-05
    round 20   loss 4.53e-05
    round 25   loss 3.04e-05
    x 0.000   u +0.00008   sin x +0.00000
    x 1.571   u +0.99933   sin x +1.00000
    x 3.142   u -0.00095   sin x +0.00000
    x 4.712   u -0.99693   sin x -1.00000
    x 6.283   u +0.00131   sin x -0.00000
    largest error 3.3e-03; loss 0.92 -> 3e-05
"""

import math
import sys

import pellucid as torch

nn = torch.nn
END = 2 * math.pi


def derivative(values, points):
    """The derivative of each value by its point, itself differentiable."""
    return torch.autograd.grad(values.sum(), points, create_graph=True)[0]


def physics_loss(model, points):
    u = model(points)
    slope = derivative(u, points)
    residual = derivative(slope, points) + u
    # The first point is 0: there the initial values must hold.
    return (residual**2).mean() + u[0, 0] ** 2 + (slope[0, 0] - 1) ** 2


def solve(model, points, rounds: int) -> list[float]:
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=20, history_size=20, line_search_fn="strong_wolfe")
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = physics_loss(model, points)
        loss.backward()
        return loss

    for count in range(1, rounds + 1):
        losses.append(optimizer.step(closure).item())
        if count == 1 or count % 5 == 0:
            print(f"round {count:2}   loss {losses[-1]:.2e}")
    return losses


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)).double()
    points = torch.linspace(0, END, 64, dtype=torch.float64).view(-1, 1).requires_grad_()

    losses = solve(model, points, rounds=5 if quick else 25)
    for x in (0.0, math.pi / 2, math.pi, 3 * math.pi / 2, END):
        u = model(torch.tensor([[x]], dtype=torch.float64)).item()
        print(f"x {x:.3f}   u {u:+.5f}   sin x {math.sin(x):+.5f}")
    error = (model(points) - points.sin()).abs().max().item()
    print(f"largest error {error:.1e}; loss {losses[0]:.2g} -> {losses[-1]:.2g}")


if __name__ == "__main__":
    main()
