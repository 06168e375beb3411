"""Names for annotations, as torch.types has them."""

import builtins
import os
from collections.abc import Sequence
from typing import Any

from pellucid import dtypes as _dtypes
from pellucid.core.tensor import Tensor
from pellucid.dtypes import Size

__all__ = ["Device", "FileLike", "IntLikeType", "Number", "Size", "Storage", "Tensor"]

_int, _float, _bool, _complex, _str = builtins.int, builtins.float, builtins.bool, builtins.complex, builtins.str
_device, _dtype, _layout = _dtypes.device, _dtypes.dtype, _dtypes.layout
_size = Size | list[builtins.int] | tuple[builtins.int, ...]
_symint = _int
_dispatchkey = str
_TensorOrTensors = Tensor | Sequence[Tensor]
Number = int | float | bool
IntLikeType, FloatLikeType, BoolLikeType = int, float, bool
Device = _device | str | int | None
FileLike = str | os.PathLike[str] | Any
Storage = Any
