"""Linear algebra, as torch.linalg has it."""

import pellucid.ops.linalg
from pellucid.ops.operation import namespace as _namespace

globals().update(_namespace("torch.linalg"))
