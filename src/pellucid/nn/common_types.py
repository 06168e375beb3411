"""Names of types under which other people's layers import them from PyTorch: a size, or one for each dimension."""

from typing import Any, TypeAlias

_scalar_or_tuple_any_t: TypeAlias = Any
_scalar_or_tuple_1_t = _scalar_or_tuple_2_t = _scalar_or_tuple_3_t = Any
_scalar_or_tuple_4_t = _scalar_or_tuple_5_t = _scalar_or_tuple_6_t = Any
_size_any_t = int | tuple[int, ...]
_size_1_t = int | tuple[int]
_size_2_t = int | tuple[int, int]
_size_3_t = int | tuple[int, int, int]
_size_4_t = int | tuple[int, int, int, int]
_size_5_t = int | tuple[int, int, int, int, int]
_size_6_t = int | tuple[int, int, int, int, int, int]
_size_any_opt_t = int | None | tuple[int | None, ...]
_size_2_opt_t = int | None | tuple[int | None, int | None]
_size_3_opt_t = int | None | tuple[int | None, int | None, int | None]
_ratio_any_t = float | tuple[float, ...]
_ratio_2_t = float | tuple[float, float]
_ratio_3_t = float | tuple[float, float, float]
_tensor_list_t = list[Any] | tuple[Any, ...]
_maybe_indices_t = Any
