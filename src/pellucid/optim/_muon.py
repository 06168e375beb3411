"""Muon: momentum whose matrix is replaced by the orthogonal one nearest to it."""

from typing import Any, ClassVar

import numpy as np

from pellucid.core.tensor import Tensor
from pellucid.dtypes import bfloat16
from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["Muon"]

BF16 = bfloat16.numpy


class Muon(Blockwise):
    """Momentum orthogonalised by Newton-Schulz iterations, for the matrices of hidden layers (Jordan et al., 2024).

    As in PyTorch the iterations are computed in bfloat16.

    >>> import pellucid as torch
    >>> weight = torch.zeros(2, 2, requires_grad=True)
    >>> optimizer = torch.optim.Muon([weight], lr=0.1)
    >>> (weight * torch.tensor([[3.0, 0.0], [0.0, 1.0]])).sum().backward()
    >>> optimizer.step()
    >>> weight.diagonal() < -0.05
    tensor([True, True])
    """

    joins: ClassVar[bool] = False

    def __init__(
        self, params: ParamsT, lr: Any = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value in {"Learning rate": lr, "momentum": momentum, "weight decay": weight_decay}.items():
            if not value >= 0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}"
                    )

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def _counters(self) -> tuple[str, ...]:
        return ()

    def _missing(self, p: Tensor, group: Group, state: dict[str, Any]) -> dict[str, Tensor]:
        if p.array.dtype.kind == "c":
            raise RuntimeError("Muon does not support complex parameters")
        return super()._missing(p, group, state)

    def _update(self, block: Block, group: Group) -> None:
        """The direction is worked out here, not written down as calls: it takes long, and Ctrl-C is to be heard."""
        lr, momentum = number(group["lr"]), number(group["momentum"])
        matrix = block.gradient_at_once()
        (velocity,), g, (rows, columns) = block.slots, matrix.reshape(-1), matrix.shape
        ahead = momentum * velocity + (1 - momentum) * g
        if group["nesterov"]:
            ahead = momentum * ahead + (1 - momentum) * g
        matrix = orthogonalised(ahead.reshape(rows, columns), group["ns_coefficients"], group["ns_steps"], group["eps"])
        block.average(velocity, g, momentum)
        block.shrink(1 - lr * number(group["weight_decay"]))
        direction = matrix.astype(block.dtype, copy=False).reshape(-1)
        block.add(direction, -lr * _adjustment(group["adjust_lr_fn"], rows, columns))


def _adjustment(rule: str | None, rows: int, columns: int) -> float:
    """By how much the learning rate is changed for a matrix of some shape."""
    if rule == "match_rms_adamw":
        return 0.2 * max(rows, columns) ** 0.5
    return max(1.0, rows / columns) ** 0.5


def orthogonalised(matrix: np.ndarray, coefficients: Any, steps: int, eps: float) -> np.ndarray:
    """The matrix with its singular values brought near 1, by iterations of a polynomial of degree five."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = _rounded(matrix.T if tall else matrix)
    x = _rounded(x / np.maximum(_rounded(np.sqrt(np.add.reduce(x * x, axis=None))), eps))
    for _ in range(steps):
        gram = _rounded(x @ x.T)
        polynomial = _rounded(b * gram + c * (gram @ gram))
        x = _rounded(a * x + polynomial @ x)
    return x.T if tall else x


def _rounded(array: np.ndarray) -> np.ndarray:
    """Values as bfloat16 holds them, in float32 for the arithmetic."""
    return array.astype(BF16).astype(np.float32)
