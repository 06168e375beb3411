"""The older place of `torch.func.functional_call`."""

from typing import Any

from pellucid import func
from pellucid.core.provenance import warn

__all__ = ["functional_call"]


def functional_call(
    module: Any, parameters_and_buffers: dict[str, Any], args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a module with other tensors in place of its own; use `torch.func.functional_call`."""
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
    )
    return func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )  # fmt: skip
