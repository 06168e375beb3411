"""NAdam: Adam with Nesterov's momentum."""

from typing import Any

import numpy as np

from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim._checks import check_betas, check_implementation, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["NAdam"]


class NAdam(Blockwise):
    """Adam that looks ahead: the momentum it steps with is the next step's (Dozat, 2016).

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.NAdam([weight], lr=0.5)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.4718, -1.4718], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: Any = 2e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        }  # fmt: skip
        check_implementation(defaults)
        super().__init__(params, defaults)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def _counters(self) -> tuple[str, ...]:
        return "step", "mu_product"

    def _first(self, name: str, group: Group) -> float:
        return 1.0 if name == "mu_product" else 0.0

    def _update(self, block: Block, group: Group) -> None:
        lr, decay, decoupled = number(group["lr"]), number(group["weight_decay"]), group["decoupled_weight_decay"]
        beta1, beta2 = map(number, group["betas"])
        if decoupled and decay != 0:
            block.shrink(1 - lr * decay)
        g = block.gradient(group["maximize"], 0 if decoupled else decay)
        (mean, square), scratch, direction = block.slots, block.buffer(1), block.buffer(2)
        step = block.advance()
        slowing = number(group["momentum_decay"])
        momentum, upcoming = (beta1 * (1 - 0.5 * 0.96 ** (at * slowing)) for at in (step, step + 1))
        product = block.renew("mu_product", lambda kept: kept * momentum)
        block.average(mean, g, beta1)
        block.average_square(square, g, beta2, scratch)
        block.copy(scratch, square)
        block.scale(1 / (1 - beta2**step), scratch)
        block.calls += [(np.sqrt, scratch, scratch), (np.add, scratch, number(group["eps"]), scratch)]
        block.copy(direction, g)
        block.scale((1 - momentum) / (1 - product), direction)
        block.axpy(upcoming / (1 - product * upcoming), mean, direction)
        block.calls.append((np.divide, direction, scratch, direction))
        block.add(direction, -lr)
