"""The functions of neural networks, as torch.nn.functional has them."""

import pellucid.ops.nn  # noqa: F401 (loading a family publishes its operations)
from pellucid.ops.operation import namespace as _namespace

globals().update(_namespace("torch.nn.functional"))
