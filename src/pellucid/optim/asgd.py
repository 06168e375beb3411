"""ASGD: gradient descent that also averages the parameters it passes through."""

from typing import Any, ClassVar

import numpy as np

from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim._checks import check_implementation, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["ASGD"]


class ASGD(Blockwise):
    """Averaged stochastic gradient descent (Polyak and Juditsky, 1992); the average is `state[p]["ax"]`.

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.ASGD([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.8000, -1.6000], requires_grad=True)
    """

    joins: ClassVar[bool] = False  # the average needs the parameter after its step

    def __init__(
        self, params: ParamsT, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        check_not_negative(weight_decay=weight_decay)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        check_implementation(defaults)
        super().__init__(params, defaults)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("ax",)

    def _counters(self) -> tuple[str, ...]:
        return "step", "eta", "mu"

    def _first(self, name: str, group: Group) -> float:
        return {"eta": float(group["lr"]), "mu": 1.0}.get(name, 0.0)

    def _update(self, block: Block, group: Group) -> None:
        lr, shrinking = number(group["lr"]), number(group["lambd"])
        g = block.gradient(group["maximize"], number(group["weight_decay"]))
        eta, mu, step = block.value("eta"), block.value("mu"), block.advance()
        block.shrink(1 - shrinking * eta)
        block.add(g, -eta)
        (mean,), scratch = block.slots, block.buffer(1)
        for p, _, _ in block.parts:
            if not block.traced and mu == 1:
                block.copy(mean, p)
            else:
                block.calls.append((np.subtract, p, mean, scratch))
                block.axpy(mu, scratch, mean)
        block.renew("eta", lambda _: lr / (1 + shrinking * lr * step) ** number(group["alpha"]))
        block.renew("mu", lambda _: 1 / (np.maximum if block.traced else max)(1, step - number(group["t0"])))
