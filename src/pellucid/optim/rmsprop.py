"""RMSprop: steps divided by the running size of the gradient."""

from typing import Any

import numpy as np

from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim._checks import check_implementation, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["RMSprop"]


class RMSprop(Blockwise):
    """p ← p − lr·g / (√(average g²) + eps); `centered` takes the variance instead of the average square (Hinton).

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.RMSprop([weight], lr=0.01)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        check_not_negative(epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        }  # fmt: skip
        check_implementation(defaults)
        super().__init__(params, defaults)

    def _slots(self, group: Group) -> tuple[str, ...]:
        extra = {"momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
        return ("square_avg", *(name for name, wanted in extra.items() if wanted))

    def _update(self, block: Block, group: Group) -> None:
        lr, alpha, momentum = number(group["lr"]), number(group["alpha"]), number(group["momentum"])
        g = block.gradient(group["maximize"], number(group["weight_decay"]))
        square, scratch, size = block.slots[0], block.buffer(1), block.buffer(2)
        block.advance()
        block.average_square(square, g, alpha, scratch)
        if group["centered"]:
            mean = block.slots[-1]
            block.average(mean, g, alpha)
            block.calls += [(np.multiply, mean, mean, scratch), (np.subtract, square, scratch, size)]
            square = size
        block.calls += [
            (np.sqrt, square, size),
            (np.add, size, number(group["eps"]), size),
            (np.divide, g, size, size),
        ]
        if momentum > 0:
            velocity = block.slots[1]
            block.scale(momentum, velocity)
            block.calls.append((np.add, velocity, size, velocity))
            block.add(velocity, -lr)
        else:
            block.add(size, -lr)
