"""Adagrad: steps shrink with the gradients seen so far."""

from typing import Any

import numpy as np

from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise, States
from pellucid.optim._checks import check_implementation, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["Adagrad"]


class Adagrad(Blockwise):
    """p ← p − lr·g / (√Σg² + eps), the sum over all steps (Duchi, Hazan and Singer, 2011).

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adagrad([weight], lr=0.5)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.5000, -1.5000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        check_not_negative(
            lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value,
            epsilon=eps,
        )  # fmt: skip
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        check_implementation(defaults)
        super().__init__(params, defaults)
        new: States = {}
        for group in self.param_groups:  # unlike others this optimizer has its state from the beginning
            for p in group["params"]:
                self._initialised(p, group, new)
        self.state.update(new)

    def share_memory(self) -> None:
        """Accepted and ignored: memory is not shared between processes."""

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("sum",)

    def _first(self, name: str, group: Group) -> float:
        return group["initial_accumulator_value"] if name == "sum" else 0.0

    def _update(self, block: Block, group: Group) -> None:
        g = block.gradient(group["maximize"], number(group["weight_decay"]))
        (total,), scratch = block.slots, block.buffer(1)
        block.calls += [
            (np.multiply, g, g, scratch),
            (np.add, total, scratch, total),
            (np.sqrt, total, scratch),
            (np.add, scratch, number(group["eps"]), scratch),
            (np.divide, g, scratch, scratch),
        ]
        block.add(scratch, -number(group["lr"]) / (1 + (block.advance() - 1) * number(group["lr_decay"])))
