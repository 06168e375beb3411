"""torch.storage: the memory behind tensors."""

from pellucid.ops.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
