"""Let an optimizer act for a while on other parameters and another state."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.optim.optimizer import Optimizer

NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Replace an optimizer's parameters and state inside a `with` block; steps there leave its own untouched.

    >>> import pellucid as torch
    >>> own, other = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    >>> own.grad = other.grad = torch.ones(1)
    >>> optimizer = torch.optim.SGD([own], lr=0.5, momentum=0.9)
    >>> optimizer.step()
    >>> with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"w": other}, optimizer.state_dict()):
    ...     optimizer.step()
    >>> (own.item(), round(other.item(), 4))
    (0.5, 0.05)
    """
    groups = _swapped_groups(optimizer, list(swapin_parameters.values()), swapin_optim_state)
    numbers = {
        number: p
        for group, saved in zip(groups, swapin_optim_state["param_groups"], strict=True)
        for number, p in zip(saved["params"], group["params"], strict=True)
    }
    state: defaultdict[Any, Any] = defaultdict(dict)
    for key, value in swapin_optim_state["state"].items():
        state[numbers.get(key, key)] = dict(value)
    own = optimizer.state, optimizer.param_groups
    optimizer.state, optimizer.param_groups = state, groups
    try:
        yield
    finally:
        optimizer.state, optimizer.param_groups = own


def _swapped_groups(optimizer: Optimizer, params: list[Tensor], saved: dict[str, Any]) -> list[dict[str, Any]]:
    """The saved groups with the parameters to swap in, when everything fits."""
    if not optimizer.state:
        raise RuntimeError(f"{NAME} requires initialized optimizer state.")
    if not isinstance(saved.get("state"), dict):
        raise RuntimeError(
            f"{NAME} requires swapin_optim_state['state'] to be a dict mapping packed parameter ids to per-param "
            f"state dicts, got {type(saved.get('state')).__name__}."
        )
    if len(saved["param_groups"]) != len(optimizer.param_groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the live optimizer.")
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    if sum(sizes) != len(params) or sizes != [len(group["params"]) for group in saved["param_groups"]]:
        raise RuntimeError(f"{NAME} requires the explicit parameter state to match optimizer.param_groups ordering.")
    remaining = iter(params)
    return [
        {**group, "params": [next(remaining) for _ in range(size)]}
        for group, size in zip(saved["param_groups"], sizes, strict=True)
    ]
