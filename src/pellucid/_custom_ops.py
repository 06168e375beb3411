"""torch._custom_ops: what torch.library was before it had a name of its own; torchvision imports it."""

from pellucid.library import custom_op, impl

__all__ = ["custom_op", "impl"]
