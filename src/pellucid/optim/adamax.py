"""Adamax: Adam with the largest gradient so far in the place of the averaged square."""

from typing import Any

import numpy as np

from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim._checks import check_betas, check_implementation, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["Adamax"]


class Adamax(Blockwise):
    """p ← p − lr·m̂ / u, where u is the decaying maximum of |g| (Kingma and Ba, 2015).

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adamax([weight], lr=0.5)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.5000, -1.5000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: Any = 2e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        check_implementation(defaults)
        super().__init__(params, defaults)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return "exp_avg", "exp_inf"

    def _update(self, block: Block, group: Group) -> None:
        beta1, beta2 = map(number, group["betas"])
        g = block.gradient(group["maximize"], number(group["weight_decay"]))
        (mean, largest), scratch = block.slots, block.buffer(1)
        block.average(mean, g, beta1)
        block.calls += [(np.abs, g, scratch), (np.add, scratch, number(group["eps"]), scratch)]
        block.scale(beta2, largest)
        block.largest(largest, scratch)
        block.calls.append((np.divide, mean, largest, scratch))
        block.add(scratch, -number(group["lr"]) / (1 - beta1 ** block.advance()))
