"""Operations with masks, as torch.masked has them: what a mask leaves out does not count."""

import pellucid.ops.rare  # noqa: F401 (loading a family publishes its operations)
from pellucid.ops.operation import namespace as _namespace

globals().update(_namespace("torch.masked"))
