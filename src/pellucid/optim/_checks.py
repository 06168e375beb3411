"""What the optimizers check of their options, in PyTorch's words."""

from typing import Any

from pellucid.core.tensor import Tensor


def check_learning_rate(lr: Any) -> None:
    """Refuse a learning rate below zero, or one that is a tensor of several."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not lr >= 0:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_not_negative(**values: Any) -> None:
    """Refuse the first option below zero, by its name."""
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"Invalid {name} value: {value}")


def check_betas(betas: Any) -> None:
    """Refuse decay rates outside of [0, 1)."""
    for i in range(2):
        if not 0 <= betas[i] < 1:
            raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")


def check_implementation(defaults: dict[str, Any]) -> None:
    """Refuse the choices of implementation that contradict each other; the others make no difference here."""
    if defaults.get("fused") and defaults["differentiable"]:
        raise RuntimeError("`fused` does not support `differentiable`")
    if defaults.get("fused") and defaults["foreach"]:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
