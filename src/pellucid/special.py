"""Special functions, as torch.special has them."""

import pellucid.ops.special  # noqa: F401 (loading a family publishes its operations)
from pellucid.ops.operation import namespace as _namespace

_names = _namespace("torch.special")
globals().update(_names, __all__=[*_names])
