"""The functions of neural networks, as torch.nn.functional has them."""

from typing import TYPE_CHECKING, Any

import pellucid.ops.nn  # noqa: F401 (loading a family publishes its operations)
from pellucid.ops.operation import namespace as _namespace

globals().update(_namespace("torch.nn.functional"))

if TYPE_CHECKING:  # the table of operations gives the names

    def __getattr__(name: str) -> Any: ...
