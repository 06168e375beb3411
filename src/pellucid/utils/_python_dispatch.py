"""torch.utils._python_dispatch, which is not here: operations do not go through a dispatcher."""

from typing import Any

from pellucid.absent import absent


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """False: there are no wrappers around tensors."""
    return False


__getattr__ = absent(
    "torch.utils._python_dispatch", "TorchDispatchMode return_and_correct_aliasing transform_subclass",
    "operations do not go through a dispatcher that could be listened to",
    "pellucid.Recorder() notes every operation",
)  # fmt: skip
