"""Adadelta: steps whose size follows from the sizes of gradients and of earlier steps."""

from typing import Any

import numpy as np

from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim._checks import check_implementation, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["Adadelta"]


class Adadelta(Blockwise):
    """p ← p − lr·Δ, where Δ = g·√(average Δ² + eps) / √(average g² + eps) (Zeiler, 2012).

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adadelta([weight], lr=100.0)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.6838, -1.6838], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        if not 0 <= rho <= 1:
            raise ValueError(f"Invalid rho value: {rho}")
        check_not_negative(epsilon=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        check_implementation(defaults)
        super().__init__(params, defaults)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return "square_avg", "acc_delta"

    def _update(self, block: Block, group: Group) -> None:
        rho, eps = number(group["rho"]), number(group["eps"])
        g = block.gradient(group["maximize"], number(group["weight_decay"]))
        (square, steps), scratch, delta = block.slots, block.buffer(1), block.buffer(2)
        block.advance()
        block.average_square(square, g, rho, scratch)
        block.calls += [
            (np.add, square, eps, scratch),
            (np.sqrt, scratch, scratch),
            (np.add, steps, eps, delta),
            (np.sqrt, delta, delta),
            (np.divide, delta, scratch, delta),
            (np.multiply, delta, g, delta),
        ]
        block.average_square(steps, delta, rho, scratch)
        block.add(delta, -number(group["lr"]))
