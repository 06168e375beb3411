"""Layer norm and root-mean-square norm: the last dimensions of each example are normalised together."""

from functools import lru_cache
from math import prod
from typing import Any

from pellucid import dtypes
from pellucid.core.kinds import plain
from pellucid.ops.arguments import Shape, refusal
from pellucid.ops.convert import as_type
from pellucid.ops.elementwise import rsqrt
from pellucid.ops.nn.norm_kernels import Layout, layout_of
from pellucid.ops.nn.normalise import layer_norm_row, normal, rms_norm_row, statistics_dtype, wide_dtype
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import mean
from pellucid.ops.shape import reshape


@lru_cache(maxsize=512)
def rows(shape: Shape, dims: int) -> Layout:
    """The last dimensions together.

    >>> rows((2, 3, 4), 1).view
    (6, 4)
    """
    size = prod(shape[len(shape) - dims :])
    return layout_of((prod(shape[: len(shape) - dims]), size), (1,), (size,))


def _check_layer(input: Any, shape: Shape, weight: Any, bias: Any) -> None:
    """Refuse a normalised shape, weight or bias that does not fit the input."""
    given = input.array.shape
    fits = (weight is None or weight.array.shape == shape) and (bias is None or bias.array.shape == shape)
    if fits and shape and given[-len(shape) :] == shape:
        return
    if not shape:
        what = "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element"
        raise refusal(RuntimeError, what)
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tensor.array.shape != shape:
            what = f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
            raise refusal(RuntimeError, f"{what}{list(tensor.shape)} and normalized_shape = {list(shape)}")
    if given[max(len(given) - len(shape), 0) :] != shape:
        what = f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}]"
        raise refusal(RuntimeError, f"{what}, but got input of size{list(given)}")


def sizes(normalized_shape: Any) -> Shape:
    """The normalised shape as a tuple."""
    if isinstance(normalized_shape, int):
        what = "layer_norm(): argument 'normalized_shape' (position 2) must be tuple of ints, not int"
        raise refusal(TypeError, what, try_=f"({normalized_shape},)")
    return tuple(normalized_shape)


def _layer_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(2, 3), (3,), draw(3), draw(3)), call(draw(2, 3, 4), (3, 4), draw(3, 4), draw(3, 4), 1e-3),
        call(draw(4), (4,)), call(draw(2, 3), [3], draw(3)), call(draw(0, 3), (3,), draw(3), draw(3)),
        call(draw(2, 3, low=90.0, high=93.0), (3,), draw(3), draw(3)), call(draw(2, 5, 3), (3,), eps=0.1),
        *(call(draw(17000 // n, n), (n,), draw(n), draw(n)) for n in (128, 900)), call(draw(140, 128), (128,)),
        call(draw(140, 128, low=20.0, high=22.0), (128,), draw(128)),  # enough for the kernels of large arrays
    ]  # fmt: skip


@operation(samples=_layer_samples, module="torch.nn.functional")
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Move and scale the last dimensions of each example to mean 0 and variance 1, then weight and shift them.

    >>> import pellucid as torch
    >>> layer_norm(torch.tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    return _layer_norm(input, sizes(normalized_shape), weight, bias, eps)[0]


def _layer_norm(input: Any, shape: Shape, weight: Any, bias: Any, eps: float) -> tuple[Any, Any]:
    _check_layer(input, shape, weight, bias)
    layout = rows(input.array.shape, len(shape))
    return normal(layer_norm_row, "LayerNormKernelImpl", input, weight, bias, layout, eps)


@operation(name="layer_norm", samples=lambda draw: _layer_samples(draw)[:2], methods=())
def _torch_layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:  # fmt: skip
    """`nn.functional.layer_norm` under its name in the main namespace."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


@operation(
    samples=lambda draw: [
        call(draw(2, 3), (3,), draw(3), draw(3), 1e-5), call(draw(2, 3, 4), (3, 4), draw(3, 4), draw(3, 4), 0.1),
        call(draw(4), (4,), draw(4), None, 1e-5), call(draw(2, 2, 2), (2,), None, None, 1e-3),
    ],
    methods=(),
)  # fmt: skip
def native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """The layer norm with the mean and 1 / sqrt(var + eps) of each example, which have no gradient.

    >>> import pellucid as torch
    >>> torch.native_layer_norm(torch.tensor([[1.0, 3.0]]), (2,), None, None, 1e-5)[1]
    tensor([[2.]])
    """
    shape = sizes(normalized_shape)
    result, moments = _layer_norm(input, shape, weight, bias, eps)
    kept = (*tuple(input.shape)[: input.ndim - len(shape)], *(1,) * len(shape))
    dtype = statistics_dtype(input, weight, bias)
    return result, *(reshape(as_type(moments[k], dtype), kept) for k in (0, 1))


@operation(
    samples=lambda draw: [
        call(draw(2, 3), (3,), draw(3)), call(draw(2, 3, 4), (3, 4), draw(3, 4), 1e-3), call(draw(4), (4,)),
        call(draw(2, 3), [3], None, 0.5), call(draw(0, 3), (3,), draw(3)), call(draw.complex(2, 3), (3,), eps=0.5),
        call(draw(140, 128), (128,), draw(128)),
    ],
    module="torch.nn.functional", aliases=("torch.rms_norm",),
)  # fmt: skip
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Divide the last dimensions of each example by the root of their mean square, then weight them.

    >>> import pellucid as torch
    >>> rms_norm(torch.tensor([[1.0, 7.0]]), (2,))
    tensor([[0.2000, 1.4000]])
    """
    shape = sizes(normalized_shape)
    _check_layer(input, shape, weight, None)
    kind = plain(input.array.dtype).kind
    if eps is None and kind not in "biu":
        eps = dtypes.finfo(input.dtype if kind == "c" else wide_dtype(input)).eps
    if kind == "c":
        scaled = input * rsqrt(mean(input * input, tuple(range(-len(shape), 0)), True) + eps)
        return scaled if weight is None else scaled * weight
    layout = rows(tuple(input.shape), len(shape))
    return normal(rms_norm_row, "rms_norm", input, weight, None, layout, eps)[0]  # type: ignore[arg-type]
