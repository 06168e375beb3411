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

    def _initialised(self, p: Tensor, group: Group) -> bool:
        if p.array.dtype.kind == "c":
            raise RuntimeError("Adafactor does not support complex parameters")
        new = super()._initialised(p, group)
        if not self.state[p]:
            self._refuse_new_state("Adafactor.step")
            shape, zeros = p.array.shape, lambda shape: wrap(np.zeros(shape, p.array.dtype))
            state = self.state[p]
            state["step"] = counter()
            if len(shape) > 1:
                state["row_var"] = zeros((*shape[:-1], 1))
                state["col_var"] = zeros((*shape[:-2], 1, shape[-1]))
            else:
                state["variance"] = zeros(shape)
        return new

    def _update(self, block: Block, group: Group) -> None:
        (parameter,) = block.parameters
        lr, (eps1, eps2), decay = number(group["lr"]), group["eps"], group["weight_decay"]
        eps1 = np.finfo(block.dtype).eps if eps1 is None else eps1
        step = block.advance()
        g = block.gradient(group["maximize"])
        for p, _, _ in block.parts:
            size = np.maximum(eps2, root_mean_square(p)) * np.minimum(lr, step**-0.5)
            if decay != 0:
                block.shrink(1 - lr * decay)
            direction, shape = block.buffer(1), parameter.array.shape
            self._estimate(parameter, g.reshape(shape), step ** group["beta2_decay"], eps1, direction.reshape(shape))
            np.maximum(direction, eps1 * eps1, out=direction)
            np.sqrt(direction, direction)
            np.divide(g, direction, direction)
            clipped = np.maximum(1.0, root_mean_square(direction) / group["d"])
            block.add(direction, -size / clipped)

    def _estimate(self, parameter: Tensor, g: np.ndarray, weight: Any, eps1: float, out: np.ndarray) -> None:
        """Renew the averages and write the square of the gradient that they stand for."""
        state = self.state[parameter]
        np.multiply(g, g, out)
        if g.ndim <= 1:
            variance = current_array(state["variance"])
            blend(variance, out, weight)
            np.copyto(out, variance)
            return
        rows, columns = current_array(state["row_var"]), current_array(state["col_var"])
        blend(rows, mean_over(out, -1), weight)
        blend(columns, mean_over(out, -2), weight)
        np.multiply(rows, columns, out)
        np.divide(out, np.maximum(mean_over(rows, -2), eps1), out)


def mean_over(array: np.ndarray, axis: int) -> np.ndarray:
    """The mean along an axis, which stays with size 1."""
    return np.add.reduce(array, axis, keepdims=True) / array.shape[axis]


def root_mean_square(array: np.ndarray) -> Any:
    """The root of the mean square of the elements of a vector.

    >>> float(root_mean_square(np.array([3.0, 4.0])))
    3.5355339059327378
    """
    return np.sqrt(array.dot(array) / array.size)


def blend(kept: np.ndarray, value: np.ndarray, weight: Any) -> None:
    """kept ← kept + weight·(value − kept)."""
    np.add(kept, (value - kept) * weight, kept, casting="same_kind")
