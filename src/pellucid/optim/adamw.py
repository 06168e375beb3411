"""AdamW: Adam whose weight decay does not go through the averages."""

from typing import Any

from pellucid.optim.adam import Adam
from pellucid.optim.optimizer import ParamsT

__all__ = ["AdamW"]


class AdamW(Adam):
    """Adam with decoupled weight decay: p ← (1 − lr·weight_decay)·p before each step (Loshchilov and Hutter, 2019).

    >>> import pellucid as torch
    >>> weight = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.AdamW([weight], lr=0.5, weight_decay=0.1)
    >>> (weight * weight).sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([ 0.4500, -1.4000], requires_grad=True)
    """

    def __init__(
        self, params: ParamsT, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        for group in state["param_groups"]:  # state that Adam saved is welcome, its way of decaying is not
            group["decoupled_weight_decay"] = True
        super().__setstate__(state)
