"""The functions of neural networks, as torch.nn.functional has them."""

import pellucid.ops.nn
from pellucid.ops.operation import namespace as _namespace

globals().update(_namespace("torch.nn.functional"))
