"""Linear algebra, as torch.linalg has it."""

import pellucid.ops.linalg  # noqa: F401 (loading a family publishes its operations)
from pellucid.errors import LinAlgError as LinAlgError
from pellucid.ops.operation import namespace as _namespace

globals().update(_namespace("torch.linalg"))
