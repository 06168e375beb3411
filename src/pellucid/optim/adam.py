"""Adam: steps scaled by running averages of the gradient and of its square."""

from typing import Any

import numpy as np

from pellucid.core.tensor import Tensor
from pellucid.native import MANY, native
from pellucid.native.words import Array, sqrt
from pellucid.optim._block import Block, number
from pellucid.optim._blockwise import Blockwise
from pellucid.optim._checks import check_betas, check_implementation, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Group, ParamsT

__all__ = ["Adam"]


@native
def adam_loop(
    first: int, last: int, g: Array, mean: Array, square: Array, target: Array, keep: int, factor: float,
    beta1: float, rest1: float, beta2: float, rest2: float, eps: float,
) -> None:  # fmt: skip
    """Renew both averages, and write `factor` times the step into the target, or add it to what is there."""
    for i in range(first, last):
        m = beta1 * mean[i] + rest1 * g[i]
        v = beta2 * square[i] + rest2 * g[i] * g[i]
        mean[i] = m
        square[i] = v
        target[i] = (target[i] if keep else 0.0) + factor * m / (sqrt(v) + eps)


class Adam(Blockwise):
    """p ← p − lr·m̂ / (√v̂ + eps), where m̂ and v̂ average the gradient and its square (Kingma and Ba, 2015).

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adam([weight], lr=0.5)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.5000, -1.5000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        _check_tensors({"lr": lr, "betas[0]": betas[0], "betas[1]": betas[1]}, bool(foreach) and not capturable)
        check_learning_rate(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        check_implementation(defaults)
        super().__init__(params, defaults)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _update(self, block: Block, group: Group) -> None:
        lr, decay, decoupled = number(group["lr"]), number(group["weight_decay"]), group["decoupled_weight_decay"]
        beta1, beta2 = map(number, group["betas"])
        if decoupled and decay != 0:
            block.shrink(1 - lr * decay)
        g = block.gradient(group["maximize"], 0 if decoupled else decay)
        mean, square, scratch = block.slots[0], block.slots[1], block.buffer(1)
        if block.size >= MANY and not group["amsgrad"] and adam_loop.fits(g, mean, square):
            return _by_loop(block, g, lr, beta1, beta2, number(group["eps"]))
        block.average(mean, g, beta1)
        block.average_square(square, g, beta2, scratch)
        if group["amsgrad"]:
            largest = block.slots[2]
            block.largest(largest, square)
            square = largest
        step = block.advance()
        root = (1 - beta2**step) ** 0.5
        block.calls += [
            (np.sqrt, square, scratch),
            (np.add, scratch, number(group["eps"]) * root, scratch),  # as √v / root + eps, with one pass less
            (np.divide, mean, scratch, scratch),
        ]
        block.add(scratch, -lr * root / (1 - beta1**step))


def _by_loop(block: Block, g: np.ndarray, lr: float, beta1: float, beta2: float, eps: float) -> None:
    """One pass over everything; the parameters of a joined block are scattered and get their steps afterwards."""
    step = block.advance()
    root = (1 - beta2**step) ** 0.5
    factor, alone = -lr * root / (1 - beta1**step), len(block.parts) == 1
    target = block.parts[0][0] if alone else block.buffer(1)
    call = adam_loop.prepared(
        block.size, 1, g, block.slots[0], block.slots[1], target, alone, factor if alone else 1.0,
        beta1, 1 - beta1, beta2, 1 - beta2, eps * root,
    )  # fmt: skip
    block.calls.append(call)
    if not alone:
        block.add(target, factor)


def _check_tensors(options: dict[str, Any], unsupported: bool) -> None:
    for name, value in options.items():
        if isinstance(value, Tensor) and unsupported:
            raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ValueError(f"Tensor {name} must be 1-element")
