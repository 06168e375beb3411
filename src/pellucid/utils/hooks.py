"""torch.utils.hooks: the handle that takes a hook away again."""

from pellucid.core.tensor import Handle

__all__ = ["RemovableHandle"]

RemovableHandle = Handle
