"""torch.utils.hooks: the handle that takes a hook away again."""

import warnings
from typing import Any

from pellucid.core.tensor import Handle

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

RemovableHandle = Handle


def unserializable_hook(f: Any) -> Any:
    """Mark a hook as one that is rightly lost when its tensor is saved.

    >>> unserializable_hook(lambda gradient: None).__torch_unserializable__
    True
    """
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of the hooks of a tensor that saving it would lose."""
    extra = getattr(tensor.node, "extra", None)
    for hook in () if extra is None else extra.on_gradient.values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )
