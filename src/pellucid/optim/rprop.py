"""Rprop: only the signs of the gradient count; every element has a step size of its own."""

from typing import Any

import numpy as np

from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim._checks import check_implementation, check_learning_rate
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["Rprop"]

BOOL = np.dtype(bool)


class Rprop(Blockwise):
    """Resilient propagation: a step size grows while the sign of its gradient stays, and shrinks when it turns.

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Rprop([weight], lr=0.25)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.7500, -1.7500], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        check_implementation(defaults)
        super().__init__(params, defaults)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return "prev", "step_size"

    def _first(self, name: str, group: Group) -> float:
        return float(group["lr"]) if name == "step_size" else 0.0

    def _update(self, block: Block, group: Group) -> None:
        shrink, grow, lowest, highest = map(number, (*group["etas"], *group["step_sizes"]))
        g = block.gradient(group["maximize"])
        (before, size), scratch = block.slots, block.buffer(1)
        kept, turned = block.buffer(2, BOOL), block.buffer(3, BOOL)
        block.advance()
        block.calls += [
            (np.multiply, g, before, scratch),
            (np.greater, scratch, 0, kept),  # neither: the first step, or held back by the last one
            (np.less, scratch, 0, turned),
        ]
        block.copy(scratch, 1)
        block.copy(scratch, grow, where=kept)
        block.copy(scratch, shrink, where=turned)
        block.calls.append((np.multiply, size, scratch, size))
        block.largest(size, lowest)
        block.smallest(size, highest)
        block.copy(before, g)
        block.copy(before, 0, where=turned)  # an element that turned stays where it is for one step
        block.calls += [(np.sign, before, scratch), (np.multiply, scratch, size, scratch)]
        block.add(scratch, -1)
