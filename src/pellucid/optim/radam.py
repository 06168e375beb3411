"""RAdam: Adam that trusts its averages only once they rest on enough steps."""

from typing import Any

import numpy as np

from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim._checks import check_betas, check_implementation, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["RAdam"]


class RAdam(Blockwise):
    """Adam with a rectified variance: the first steps use the averaged gradient alone (Liu et al., 2020).

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.RAdam([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.8000, -1.6000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }  # fmt: skip
        check_implementation(defaults)
        super().__init__(params, defaults)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def _update(self, block: Block, group: Group) -> None:
        lr, decay, decoupled = number(group["lr"]), number(group["weight_decay"]), group["decoupled_weight_decay"]
        beta1, beta2 = map(number, group["betas"])
        if decoupled and decay != 0:
            block.shrink(1 - lr * decay)
        g = block.gradient(group["maximize"], 0 if decoupled else decay)
        (mean, square), scratch = block.slots, block.buffer(1)
        block.average(mean, g, beta1)
        block.average_square(square, g, beta2, scratch)
        step = block.advance()
        unbiased = lr / (1 - beta1**step)
        trust = rectification(beta2, step)
        if trust is None:
            block.add(mean, -unbiased)
            return
        block.calls += [
            (np.sqrt, square, scratch),
            (np.add, scratch, number(group["eps"]), scratch),
            (np.divide, mean, scratch, scratch),
        ]
        block.add(scratch, -unbiased * trust * (1 - beta2**step) ** 0.5)


def rectification(beta2: float, step: float) -> float | None:
    """How far the averaged square can be trusted after some steps; None: not at all yet.

    >>> rectification(0.999, 5.0)
    >>> round(rectification(0.999, 100.0), 4)
    0.2153
    """
    limit = 2 / (1 - beta2) - 1
    length = limit - 2 * step * beta2**step / (1 - beta2**step)  # over how many steps the average reaches
    if length <= 5:
        return None
    return float(((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)) ** 0.5)
