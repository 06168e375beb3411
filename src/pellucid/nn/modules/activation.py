"""Activations: functions of each element, and the softmax family, as layers."""

from typing import Any

from pellucid.core.provenance import warn
from pellucid.nn import functional, init
from pellucid.nn.modules.module import Module
from pellucid.nn.modules.multihead import MultiheadAttention
from pellucid.nn.parameter import Parameter
from pellucid.ops.create import empty

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid",
    "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


def _texts(module: Module, *names: str) -> str:
    """Attributes as `name=value`; `inplace` only where it is so."""
    shown = [f"{name}={getattr(module, name)}" for name in names]
    return ", ".join(shown + ["inplace=True"] * bool(getattr(module, "inplace", False)))


# --- without settings


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`.

    >>> import pellucid as torch
    >>> torch.nn.Sigmoid()(torch.tensor(0.0))
    tensor(0.5000)
    """

    def forward(self, input: Any) -> Any:
        """Squash into (0, 1)."""
        return functional.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Any) -> Any:
        """Squash into (-1, 1)."""
        return functional.tanh(input)


class LogSigmoid(Module):
    """`log(sigmoid(x))`, right also where the sigmoid is 0 in floating point."""

    def forward(self, input: Any) -> Any:
        """The logarithm of the sigmoid."""
        return functional.logsigmoid(input)


class Softsign(Module):
    """`x / (1 + |x|)`."""

    def forward(self, input: Any) -> Any:
        """Squash into (-1, 1), more gently than tanh."""
        return functional.softsign(input)


class Tanhshrink(Module):
    """`x - tanh(x)`."""

    def forward(self, input: Any) -> Any:
        """What tanh leaves out."""
        return functional.tanhshrink(input)


# --- with the choice to work in place


class _InPlace(Module):
    """An activation whose one setting is whether it overwrites its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class _ShownInPlace(_InPlace):
    """One whose text tells it."""

    def extra_repr(self) -> str:
        """`inplace=True`, or nothing."""
        return _texts(self)


class ReLU(_ShownInPlace):
    """`max(x, 0)`.

    >>> import pellucid as torch
    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Any) -> Any:
        """Zero in place of what is negative."""
        return functional.relu(input, self.inplace)


class SELU(_ShownInPlace):
    """The scaled ELU, under which activations keep mean 0 and variance 1."""

    def forward(self, input: Any) -> Any:
        """`scale * (max(x, 0) + min(alpha * (exp(x) - 1), 0))`."""
        return functional.selu(input, self.inplace)


class SiLU(_ShownInPlace):
    """`x * sigmoid(x)`, also called swish."""

    def forward(self, input: Any) -> Any:
        """The input times its sigmoid."""
        return functional.silu(input, self.inplace)


class Mish(_ShownInPlace):
    """`x * tanh(softplus(x))`."""

    def forward(self, input: Any) -> Any:
        """The input times the tanh of its softplus."""
        return functional.mish(input, self.inplace)


class Hardsigmoid(_InPlace):
    """A sigmoid of three straight lines: `relu6(x + 3) / 6`."""

    def forward(self, input: Any) -> Any:
        """Squash into [0, 1]."""
        return functional.hardsigmoid(input, self.inplace)


class Hardswish(_InPlace):
    """`x * relu6(x + 3) / 6`."""

    def forward(self, input: Any) -> Any:
        """The input times its hard sigmoid."""
        return functional.hardswish(input, self.inplace)


# --- with settings


class Threshold(Module):
    """Values up to a threshold are replaced by another value.

    >>> import pellucid as torch
    >>> torch.nn.Threshold(0.5, 9.0)(torch.tensor([0.2, 0.7]))
    tensor([9.0000, 0.7000])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Replace what is not above the threshold."""
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Its threshold and its value."""
        return _texts(self, "threshold", "value")


class RReLU(Module):
    """A leaky ReLU whose slope is drawn for each element while training, and the middle of the range afterwards."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Multiply what is negative by its slope."""
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The range of its slopes."""
        return _texts(self, "lower", "upper")


class Hardtanh(Module):
    """Values limited to [min_val, max_val].

    >>> import pellucid as torch
    >>> torch.nn.Hardtanh()(torch.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False, min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        for old, new, given in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if given is not None:
                warn(f"keyword argument `{old}` is deprecated and renamed to `{new}`", FutureWarning)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Any) -> Any:
        """Limit every element."""
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Its limits."""
        return _texts(self, "min_val", "max_val")


class ReLU6(Hardtanh):
    """`min(max(x, 0), 6)`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """`inplace=True`, or nothing."""
        return _texts(self)


class _Exponential(Module):
    """What is negative is bent towards -alpha."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Its alpha."""
        return _texts(self, "alpha")


class ELU(_Exponential):
    """`x` where positive, else `alpha * (exp(x) - 1)`."""

    def forward(self, input: Any) -> Any:
        """Bend what is negative towards -alpha."""
        return functional.elu(input, self.alpha, self.inplace)


class CELU(_Exponential):
    """`max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))`: an ELU without a kink for every alpha."""

    def forward(self, input: Any) -> Any:
        """Bend what is negative towards -alpha, smoothly."""
        return functional.celu(input, self.alpha, self.inplace)


class LeakyReLU(Module):
    """`x` where positive, else `negative_slope * x`."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """Multiply what is negative by the slope."""
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Its slope."""
        return _texts(self, "negative_slope")


class PReLU(Module):
    """A leaky ReLU that learns its slope, or one slope for each channel (dimension 1).

    >>> import pellucid as torch
    >>> torch.nn.PReLU()(torch.tensor([-4.0, 2.0]))
    tensor([-1.,  2.], grad_fn=<PreluKernelBackward0>)
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every slope is `init` again."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Any:
        """Multiply what is negative by the slope."""
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """How many slopes it learns."""
        return _texts(self, "num_parameters")


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`, and `x` itself where `beta * x` is above the threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Any:
        """A smooth ReLU."""
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Its sharpness and its threshold."""
        return _texts(self, "beta", "threshold")


class _Shrink(Module):
    """Small values become zero."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """What counts as small."""
        return str(self.lambd)


class Hardshrink(_Shrink):
    """Zero in [-lambd, lambd], the input outside."""

    def forward(self, input: Any) -> Any:
        """Cut small values away."""
        return functional.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """Every value moved by lambd towards zero, and not beyond."""

    def forward(self, input: Any) -> Any:
        """Shrink all values."""
        return functional.softshrink(input, self.lambd)


class GELU(Module):
    """`x` times the probability that a normal variable is below `x`; or the tanh approximation of that.

    >>> import pellucid as torch
    >>> torch.nn.GELU()(torch.tensor([-1.0, 1.0]))
    tensor([-0.1587,  0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """The input times the normal distribution function."""
        return functional.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Which formula it uses."""
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """One half of the input times the sigmoid of the other half."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """Gate the first half by the second."""
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension that is halved."""
        return _texts(self, "dim")


# --- over a dimension


class _OverDimension(Module):
    """An activation that normalises along one dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The dimension."""
        return _texts(self, "dim")


class Softmax(_OverDimension):
    """Positive numbers with sum 1 along a dimension: `exp(x) / sum(exp(x))`.

    >>> import pellucid as torch
    >>> torch.nn.Softmax(dim=0)(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Any) -> Any:
        """Probabilities along the dimension."""
        return functional.softmax(input, self.dim)


class LogSoftmax(_OverDimension):
    """The logarithm of the softmax."""

    def forward(self, input: Any) -> Any:
        """Logarithms of probabilities along the dimension."""
        return functional.log_softmax(input, self.dim)


class Softmin(_OverDimension):
    """The softmax of the negated input."""

    def forward(self, input: Any) -> Any:
        """Probabilities that are large where the input is small."""
        return functional.softmin(input, self.dim)


class Softmax2d(Module):
    """The softmax over the channels of every pixel of (N, C, H, W) or (C, H, W).

    >>> import pellucid as torch
    >>> image = torch.tensor([[[1.0, 0.0]], [[1.0, 5.0]]])  # 2 channels, 1 row, 2 pixels
    >>> torch.nn.Softmax2d()(image)
    tensor([[[0.5000, 0.0067]],
    <BLANKLINE>
            [[0.5000, 0.9933]]])
    """

    def forward(self, input: Any) -> Any:
        """Probabilities along the channels."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return functional.softmax(input, -3)
