"""Adafactor: the averaged square of a matrix's gradient, kept as one number per row and one per column."""

from typing import Any, ClassVar

import numpy as np

from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_array
from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim.optimizer import Group, ParamsT, counter

__all__ = ["Adafactor"]


class Adafactor(Blockwise):
    """Adaptive steps relative to the size of the parameter, with little memory (Shazeer and Stern, 2018).

    >>> import pellucid as torch
    >>> weight = torch.tensor([[1.0, -2.0]], requires_grad=True)
    >>> optimizer = torch.optim.Adafactor([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([[ 0.8419, -1.8419]], requires_grad=True)
    """

    joins: ClassVar[bool] = False

    def __init__(
        self, params: ParamsT, lr: Any = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
        foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for text, value, fits in (
            ("Learning rate should be >= 0", lr, lr >= 0),
            ("beta2_decay should be <= 0", beta2_decay, beta2_decay <= 0),
            ("epsilon1 should be >= 0", eps[0], eps[0] is None or eps[0] >= 0),
            ("epsilon2 should be >= 0", eps[1], eps[1] >= 0),
            ("Clipping threshold d should be >= 1", d, d >= 1),
            ("weight_decay should be >= 0", weight_decay, weight_decay >= 0),
        ):
            if not fits:
                raise ValueError(f"{text} but is: {value}")
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ()

    def _missing(self, p: Tensor, group: Group, state: dict[str, Any]) -> dict[str, Tensor]:
        if p.array.dtype.kind == "c":
            raise RuntimeError("Adafactor does not support complex parameters")
        if state:
            return {}
        shape, zeros = p.array.shape, lambda shape: wrap(np.zeros(shape, p.array.dtype))
        if len(shape) <= 1:
            return {"step": counter(), "variance": zeros(shape)}
        return {
            "step": counter(),
            "row_var": zeros((*shape[:-1], 1)),
            "col_var": zeros((*shape[:-2], 1, shape[-1])),
        }

    def _update(self, block: Block, group: Group) -> None:
        """The direction is worked out here, before anything is written: how far to go depends on its length."""
        lr, (eps1, eps2), decay = number(group["lr"]), group["eps"], number(group["weight_decay"])
        eps1 = float(np.finfo(block.dtype).eps) if eps1 is None else number(eps1)
        larger, smaller = (np.maximum, np.minimum) if block.traced else (max, min)
        step = block.advance()
        g = block.gradient_at_once()
        g = np.negative(g) if group["maximize"] else g
        for p, _, _ in block.parts:
            size = larger(number(eps2), root_mean_square(p)) * smaller(lr, step**-0.5)
            direction = _direction(block, g, step ** number(group["beta2_decay"]), eps1).reshape(-1)
            clipped = larger(1.0, root_mean_square(direction) / number(group["d"]))
            if decay != 0:
                block.shrink(1 - lr * decay)
            block.add(direction, -size / clipped)


def _direction(block: Block, g: np.ndarray, weight: Any, eps1: float) -> np.ndarray:
    """The gradient divided by its usual size, as the averages will tell when this gradient is among them."""
    (state,) = block.states
    floor = block.dtype.type(eps1 * eps1)
    if g.ndim <= 1:
        g, variance = g.reshape(-1), current_array(state["variance"]).reshape(-1)
        mean = blended(variance, g * g, weight)
        block.copy(variance, mean)
        root = np.sqrt(np.maximum(mean, floor))
    else:
        rows, columns = current_array(state["row_var"]), current_array(state["col_var"])
        square = g * g
        row, column = (blended(kept, mean_over(square, axis), weight) for kept, axis in ((rows, -1), (columns, -2)))
        block.copy(rows, row)
        block.copy(columns, column)
        row = row / np.maximum(mean_over(row, -2), eps1)
        # The roots of both factors, not of each product: one pass over the matrix instead of three.
        root = np.multiply(np.sqrt(row), np.sqrt(column), square)
        np.maximum(root, np.sqrt(floor), out=root)
    return np.divide(g, root, root)


def mean_over(array: np.ndarray, axis: int) -> np.ndarray:
    """The mean along an axis, which stays with size 1."""
    return np.add.reduce(array, axis, keepdims=True) / array.shape[axis]


def root_mean_square(array: np.ndarray) -> Any:
    """The root of the mean square of the elements of a vector.

    >>> float(root_mean_square(np.array([3.0, 4.0])))
    3.5355339059327378
    """
    return np.sqrt(array.dot(array) / array.size)


def blended(kept: np.ndarray, value: np.ndarray, weight: Any) -> np.ndarray:
    """kept + weight·(value − kept)."""
    return kept + (value - kept) * weight
