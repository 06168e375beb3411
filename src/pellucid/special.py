"""Special functions, as torch.special has them."""

import pellucid.ops.special
from pellucid.ops.operation import namespace as _namespace

globals().update(_namespace("torch.special"))
