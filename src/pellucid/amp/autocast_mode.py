"""autocast: inside of it products are computed in bfloat16, and what needs its digits in float32."""

from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from dataclasses import replace
from functools import partial, wraps
from typing import Any

from pellucid import dtypes
from pellucid.core import modes
from pellucid.core.primitive import BOUND, Primitive
from pellucid.core.provenance import warn
from pellucid.core.tensor import Tensor

# Rows by what PyTorch does with them on the CPU; all others compute in the widest dtype they are given.
SHORT = frozenset((
    "mm", "bmm", "matmul", "linear", "linear_with_bias", "addmm", "addmv", "addbmm", "baddbmm", "einsum",
    "convolution", "convolution_bias", "convolution_transposed", "convolution_transposed_bias", "attention", "prelu",
))  # fmt: skip
WIDE = frozenset((
    "prod", "prod_all", "cdist", "trace", "quantile", "stft", "view_as_complex", "mse_loss", "nll_loss",
    "cross_entropy", "binary_cross_entropy", "smooth_l1_loss", "huber_loss", "kl_div", "ctc_loss",
))  # fmt: skip
HALVES = (dtypes.float16, dtypes.bfloat16)


class Policy:
    """Chooses the dtype of an operation's inputs."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def cast(self, p: Primitive, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The inputs of an operation in the dtype it is to compute in."""
        if p.name in SHORT:
            return tuple(_in(value, self.dtype, (dtypes.float32, *HALVES)) for value in inputs)
        if p.name in WIDE:
            return tuple(_in(value, dtypes.float32, HALVES) for value in inputs)
        if p.dtypes == "equal" and len(inputs) > 1:
            found = {value.dtype for value in inputs if isinstance(value, Tensor)}
            if len(found) > 1 and dtypes.float32 in found:
                return tuple(_in(value, dtypes.float32, HALVES) for value in inputs)
        return tuple(inputs)


def _in(value: Any, dtype: Any, among: tuple[Any, ...]) -> Any:
    if not isinstance(value, Tensor) or value.dtype is dtype or value.dtype not in among:
        return value
    with modes.switched(autocast=None):
        return BOUND["cast"](value, dtypes.as_numpy_dtype(dtype), value.array.dtype)


class autocast(ContextDecorator):
    """Compute matrix products and convolutions in bfloat16 inside a block.

    >>> import pellucid as torch
    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     (x @ x).dtype, (x + x).dtype
    (torch.bfloat16, torch.float32)
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = dtypes.device(device_type).type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if device_type != "cpu":
            if enabled:
                warn(f"User provided device_type of '{device_type}', but there is only the CPU. Disabling")
            enabled = False
        elif self.fast_dtype not in HALVES:
            if enabled:
                warn(f"In CPU autocast, but the target dtype is {self.fast_dtype}, not supported. Disabling autocast.")
            enabled = False
        self._enabled = enabled
        self._before: list[Any] = []

    def _recreate_cm(self) -> "autocast":
        return autocast(self.device, self.fast_dtype, self._enabled)

    def __enter__(self) -> "autocast":
        self._before.append(modes.MODE.get())
        modes.install(replace(modes.current(), autocast=Policy(self.fast_dtype) if self._enabled else None))
        return self

    def __exit__(self, *error: object) -> None:
        modes.MODE.set(self._before.pop())


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device; without one for CUDA, as in PyTorch, and there it never is.

    >>> import pellucid as torch
    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled()
    (True, False)
    """
    return dtypes.device(device_type).type == "cpu" and modes.current().autocast is not None


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch autocast on or off without a block; on a device that is not here nothing happens.

    >>> import pellucid as torch
    >>> torch.set_autocast_enabled("cpu", True)
    >>> torch.is_autocast_enabled("cpu")
    True
    >>> torch.set_autocast_enabled("cpu", False)
    """
    if enabled is not None and dtypes.device(device_type).type == "cpu":
        modes.install(replace(modes.current(), autocast=Policy(_CHOSEN["cpu"]) if enabled else None))


_CHOSEN: dict[str, Any] = {"cpu": dtypes.bfloat16}  # the dtype of products by device; float16 where none was chosen


def get_autocast_dtype(device_type: str) -> Any:
    """The dtype that autocast computes products in on a device.

    >>> import pellucid as torch
    >>> with torch.autocast("cpu", dtype=torch.float16):
    ...     torch.get_autocast_dtype("cpu")
    torch.float16
    """
    kind, policy = dtypes.device(device_type).type, modes.current().autocast
    return policy.dtype if kind == "cpu" and policy is not None else _CHOSEN.get(kind, dtypes.float16)


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Choose the dtype of products for autocasts of a device that name none.

    >>> import pellucid as torch
    >>> torch.set_autocast_dtype("cpu", torch.float16)
    >>> torch.autocast("cpu").fast_dtype
    torch.float16
    >>> torch.set_autocast_dtype("cpu", torch.bfloat16)
    """
    _CHOSEN[dtypes.device(device_type).type] = dtype
    if is_autocast_enabled(device_type):
        set_autocast_enabled(device_type, True)


# PyTorch's older spellings, one per device.
is_autocast_cpu_enabled = partial(is_autocast_enabled, "cpu")
set_autocast_cpu_enabled = partial(set_autocast_enabled, "cpu")
get_autocast_cpu_dtype = partial(get_autocast_dtype, "cpu")
set_autocast_cpu_dtype = partial(set_autocast_dtype, "cpu")
get_autocast_gpu_dtype = partial(get_autocast_dtype, "cuda")
set_autocast_gpu_dtype = partial(set_autocast_dtype, "cuda")

_CACHED = [True]


def is_autocast_cache_enabled() -> bool:
    """What was set: weights are cast anew by every operation, so that there is nothing to remember.

    >>> is_autocast_cache_enabled()
    True
    """
    return _CACHED[0]


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Remembered, and otherwise without effect: nothing is cached.

    >>> set_autocast_cache_enabled(True)
    """
    _CACHED[0] = enabled


def clear_autocast_cache() -> None:
    """Does nothing: nothing is cached.

    >>> clear_autocast_cache()
    """


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast works on a device.

    >>> import pellucid as torch
    >>> torch.amp.is_autocast_available("cpu")
    True
    """
    return device_type == "cpu"


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorate the forward of a custom function: with `cast_inputs` it runs outside of autocast in that dtype.

    >>> import pellucid as torch
    >>> class Exact(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    ...     def forward(ctx, x):
    ...         return x @ x
    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu"):
    ...     print((x @ x).dtype, Exact.apply(x).dtype)
    torch.bfloat16 torch.float32
    """
    if fwd is None:
        return lambda function: custom_fwd(function, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        if cast_inputs is None or not is_autocast_enabled(device_type):
            return fwd(*args, **kwargs)
        floating = (dtypes.float32, dtypes.float64, *HALVES)
        with autocast("cpu", enabled=False):
            return fwd(*(_in(value, cast_inputs, floating) for value in args), **kwargs)

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorate the backward of a custom function: it needs nothing here.

    >>> import pellucid as torch
    >>> class Doubled(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return 2 * grad
    >>> x = torch.tensor(1.0, requires_grad=True)
    >>> Doubled.apply(x).backward()
    >>> x.grad
    tensor(2.)
    """
    return (lambda function: function) if bwd is None else bwd
