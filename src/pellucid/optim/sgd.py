"""SGD: step against the gradient, with momentum if wanted."""

from typing import Any

from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim._checks import check_implementation, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["SGD"]


class SGD(Blockwise):
    """Stochastic gradient descent: p ← p − lr·g; with momentum g is an average over the steps so far.

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.SGD([weight], lr=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: Any = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        check_not_negative(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        check_implementation(defaults)
        super().__init__(params, defaults)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _counters(self) -> tuple[str, ...]:
        return ()

    def _update(self, block: Block, group: Group) -> None:
        lr, momentum = number(group["lr"]), number(group["momentum"])
        g = block.gradient(group["maximize"], number(group["weight_decay"]))
        if not block.slots:
            block.add(g, -lr)
            return
        velocity = block.slots[0]
        if block.fresh:
            block.begin(velocity, g)
        else:
            block.scale(momentum, velocity)
            block.axpy(1 - number(group["dampening"]), g, velocity)
        if group["nesterov"]:
            block.add(g, -lr)
            block.add(velocity, -lr * momentum)
        else:
            block.add(velocity, -lr)
