"""Names for annotations, as torch.types has them."""

import builtins
import os
from collections.abc import Sequence
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.dtypes import Size, device as _device, dtype as _dtype, layout as _layout  # noqa: F401 (public)


__all__ = ["Device", "FileLike", "IntLikeType", "Number", "Size", "Storage", "Tensor"]

_int, _float, _bool, _complex, _str = builtins.int, builtins.float, builtins.bool, builtins.complex, builtins.str
_size = Size | list[builtins.int] | tuple[builtins.int, ...]
_symint = _int
_dispatchkey = str
_TensorOrTensors = Tensor | Sequence[Tensor]
Number = int | float | bool
IntLikeType, FloatLikeType, BoolLikeType = int, float, bool
Device = _device | str | int | None
FileLike = str | os.PathLike[str] | Any
Storage = Any
