"""Initial values of parameters; with the same seed they are PyTorch's, bit for bit."""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import pellucid as torch
from pellucid.core import modes
from pellucid.core.provenance import warn
from pellucid.core.tensor import Tensor

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}
PLAIN = ("linear", "sigmoid", *(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)))


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """By how much to scale weights before a nonlinearity so that the size of values stays the same.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in PLAIN:
        return 1
    if nonlinearity in GAINS:
        return GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def silently(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Run an initialiser without recording anything."""

    @wraps(function)
    def initialise(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if tensor.is_meta:  # type: ignore[attr-defined]
            return tensor  # there is nothing to give a value to, and nothing is drawn
        with modes.no_grad():
            return function(tensor, *args, **kwargs)

    return initialise


@silently
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Values spread evenly from a to b."""
    return tensor.uniform_(a, b, generator=generator)  # type: ignore[no-any-return]


@silently
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Values of a normal distribution.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.init.normal_(torch.empty(3))
    tensor([ 1.5410, -0.2934, -2.1788])
    """
    return tensor.normal_(mean, std, generator=generator)  # type: ignore[no-any-return]


@silently
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Values of a normal distribution, none outside of [a, b]."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The values may be distributed incorrectly.")
    low, high = (0.5 * (1 + math.erf((bound - mean) / std / math.sqrt(2))) for bound in (a, b))
    draw = _normal_inside if high - low > 0.3 else _uniform_accepted
    return draw(tensor, mean, std, a, b, generator)


def _normal_inside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Normal numbers, drawn again where they fall outside: most do not."""
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()  # the bounds as the dtype holds them
    tensor.normal_(mean, std, generator=generator)
    while bool((outside := (tensor < low) | (tensor > high)).any()):
        tensor.copy_(torch.where(outside, torch.empty_like(tensor).normal_(mean, std, generator=generator), tensor))
    return tensor


def _uniform_accepted(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Uniform numbers of [a, b], each accepted with the density there over the largest, and else drawn again."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    pending = torch.ones_like(tensor, dtype=torch.bool)
    while bool(pending.any()):
        candidates = torch.empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(torch.where(pending, candidates, tensor))
        density = candidates.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        pending &= torch.empty_like(tensor).uniform_(generator=generator).log_() > density
    return tensor


@silently
def constant_(tensor: Tensor, val: float) -> Tensor:
    """The same value everywhere."""
    return tensor.fill_(val)  # type: ignore[no-any-return]


@silently
def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return tensor.fill_(1.0)  # type: ignore[no-any-return]


@silently
def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return tensor.zero_()  # type: ignore[no-any-return]


@silently
def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(torch.eye(*tensor.shape))  # type: ignore[no-any-return]


@silently
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that passes its input on: one in the middle of each channel's own filter."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    tensor.zero_()
    middle = tuple(n // 2 for n in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(per_group, tensor.shape[1])):
            tensor[(group * per_group + channel, channel, *middle)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs each output sees, and how many outputs each input feeds."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Even spread whose variance suits inputs and outputs (Glorot and Bengio)."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal distribution whose variance suits inputs and outputs (Glorot and Bengio)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor)))), generator)


def _kaiming_deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    """The standard deviation that suits rectifiers; None for a tensor with nothing to set, of which it warns."""
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Even spread whose variance suits rectifiers (He et al.)."""
    std = _kaiming_deviation(tensor, a, mode, nonlinearity)
    return tensor if std is None else uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal distribution whose variance suits rectifiers (He et al.)."""
    std = _kaiming_deviation(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0, std, generator)


@silently
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A random matrix with orthogonal rows or columns."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    flat = torch.empty(rows, columns, dtype=tensor.dtype).normal_(0, 1, generator=generator)
    q, r = torch.linalg.qr(flat.t() if rows < columns else flat)
    q = q * torch.diag(r).sign()
    return tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape)).mul_(gain)  # type: ignore[no-any-return]


@silently
def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """A normal distribution with a share of each column set to zero."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        order: Any = torch.randperm(rows)
        tensor[order[:zeros], column] = 0
    return tensor  # type: ignore[no-any-return]


def _renamed(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An initialiser under the name it had before PyTorch 0.4, without the underscore; it warns."""
    old, new = function.__name__[:-1], function.__name__

    @wraps(function)
    def initialise(*args: Any, **kwargs: Any) -> Tensor:
        warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning)
        return function(*args, **kwargs)

    initialise.__name__ = initialise.__qualname__ = old
    return initialise


uniform, normal, constant, eye, dirac = map(_renamed, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = _renamed(xavier_uniform_), _renamed(xavier_normal_)
kaiming_uniform, kaiming_normal = _renamed(kaiming_uniform_), _renamed(kaiming_normal_)
orthogonal, sparse = _renamed(orthogonal_), _renamed(sparse_)
