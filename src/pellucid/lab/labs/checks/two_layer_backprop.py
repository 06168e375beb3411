"""Two layers by hand: golden numbers, shapes, and the gradients against Pellucid's own."""

from typing import Any

import numpy as np

import pellucid
from pellucid.lab.labs.lab import Criteria, expect
from pellucid.lab.labs.running import Work

criteria = Criteria()
torch: Any = pellucid  # its names are made when it is imported: no type checker knows them
SHAPES = {"W2": (1, 3), "b2": (1, 1), "W1": (3, 2), "b1": (3, 1), "x": (2, 1)}


def _parameters() -> dict[str, Any]:
    random = np.random.RandomState(42)  # the old generator: the lab's numbers are its
    w1, w2 = random.randn(3, 2) * 0.1, random.randn(1, 3) * 0.1
    return {"W1": w1, "b1": np.zeros((3, 1)), "W2": w2, "b2": np.zeros((1, 1))}


def truth() -> str:
    """The shape of the product in the wrong order."""
    return str((np.ones((3, 1)) @ np.ones((1, 1)).T).shape)


def _passes(work: Work, p: dict[str, Any], x: Any, target: Any) -> tuple[Any, float, dict[str, Any]]:
    """The learner's prediction, loss and gradients."""
    forward, backward = work.named("network.py", "forward"), work.named("network.py", "backward")
    prediction, loss, saved = forward(p, x, target)
    return prediction, loss, backward(p, saved)


@criteria("parameters() is untouched, and forward predicts 0.031824 with loss 0.468682 for x = (1, 2), target 1")
def golden(work: Work) -> None:
    given = work.named("network.py", "parameters")()
    wanted = _parameters()
    expect(all(np.array_equal(given[k], wanted[k]) for k in wanted), "parameters() gives other numbers than it did")
    prediction, loss, _ = work.named("network.py", "forward")(given, np.array([[1.0], [2.0]]), np.array([[1.0]]))
    expect(np.shape(prediction) == (1, 1), f"the prediction has shape {np.shape(prediction)}, not (1, 1)")
    value = float(np.asarray(prediction).item())
    expect(abs(value - 0.031824) < 1e-6, f"the prediction is {value:.6f}")
    expect(abs(float(loss) - 0.468682) < 1e-6, f"the loss is {float(loss):.6f}")


@criteria("every gradient has the shape of what it belongs to: W2 (1, 3), b2 (1, 1), W1 (3, 2), b1 (3, 1), x (2, 1)")
def shapes(work: Work) -> None:
    _, _, gradients = _passes(work, _parameters(), np.array([[1.0], [2.0]]), np.array([[1.0]]))
    for name, shape in SHAPES.items():
        expect(name in gradients, f"backward gives no gradient for {name}")
        given = np.shape(gradients[name])
        why = ": error on the left, input transposed on the right" if given == shape[::-1] != shape else ""
        expect(given == shape, f"the gradient of {name} has shape {given}, {name} has {shape}{why}")


@criteria("the gradients are those of pellucid, for one sample and for a batch of five")
def gradients_agree(work: Work) -> None:
    random = np.random.default_rng(0)
    for count in (1, 5):
        p = {name: random.normal(size=shape) for name, shape in SHAPES.items()}
        x, target = random.normal(size=(2, count)), random.normal(size=(1, count))
        given, wanted = _passes(work, p, x, target)[2], _automatic(p, x, target)
        for name, gradient in wanted.items():
            same = np.shape(given[name]) == gradient.shape and np.allclose(given[name], gradient)
            expect(same, f"batch of {count}: the gradient of {name} is {given[name]}, not {gradient}")


def _automatic(p: dict[str, Any], x: Any, target: Any) -> dict[str, Any]:
    leaves = {name: torch.tensor(value).requires_grad_() for name, value in {**p, "x": x}.items()}
    hidden = (leaves["W1"] @ leaves["x"] + leaves["b1"]).relu()
    error = leaves["W2"] @ hidden + leaves["b2"] - torch.tensor(target)
    (0.5 * error**2).sum().backward()
    return {name: leaf.grad.numpy() for name, leaf in leaves.items()}


@criteria("a step against the gradient lowers the loss; nothing is changed in place")
def descends(work: Work) -> None:
    p, x, target = _parameters(), np.array([[1.0], [2.0]]), np.array([[1.0]])
    before = {name: value.copy() for name, value in p.items()}
    _, loss, gradients = _passes(work, p, x, target)
    kept = all(np.array_equal(p[name], before[name]) for name in p)
    expect(kept, "forward or backward changed the parameters it was given")
    moved = {name: value - 0.1 * gradients[name] for name, value in p.items()}
    after = work.named("network.py", "forward")(moved, x, target)[1]
    expect(after < loss, f"after a step of 0.1 the loss is {after:.6f}, before it was {loss:.6f}")
