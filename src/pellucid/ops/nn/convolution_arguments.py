"""What the convolutions ask of their arguments: numbers per dimension, paddings, channels that fit together."""

from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import Shape, as_int, expect, refusal, refuse
from pellucid.ops.shape import unsqueeze_row


def numbers(what: str, value: Any, rank: int, least: int) -> Shape:
    """One number per dimension; a single one, bare or in a sequence, counts for all."""
    if isinstance(value, str):
        raise refusal(TypeError, f"convolution: argument '{what}' must be tuple of ints, not str")
    given = tuple(map(as_int, value)) if isinstance(value, (tuple, list)) else (as_int(value),)
    if len(given) not in (1, rank):
        raise refusal(
            RuntimeError,
            f"expected {what} to be a single integer value or a list of {rank} values to match the convolution "
            f"dimensions, but got {what}={list(given)}",
        )
    lowest = "negative" if least == 0 else "non-positive"
    refused = f"{what} should be greater than zero" if what == "dilation" else f"{lowest} {what} is not supported"
    expect(min(given) >= least, f"{refused}, got {list(given)}")
    return given * rank if len(given) == 1 else given


def check_tensors(name: str, input: Any, weight: Any, bias: Any) -> None:
    """Tensors of one dtype, which holds numbers."""
    for what, value in (("input", input), ("weight", weight), ("bias", bias)):
        if not isinstance(value, Tensor) and not (what == "bias" and value is None):
            raise refusal(TypeError, f"{name}(): argument '{what}' must be Tensor, not {type(value).__name__}")
    for what, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.array.dtype != input.array.dtype:
            raise refusal(
                RuntimeError,
                f"{name}: Input type ({input.dtype}) and {what} type ({value.dtype}) should be the same",
                try_=f"{what}.to(input.dtype)",
            )
    refuse(input, "b", f"\"{name}\" not implemented for '{{}}'", NotImplementedError)


def check_channels(weight: Shape, input: Shape, bias: Any, groups: int, transposed: bool) -> None:
    """The channels of input, weight, bias and groups fit together."""
    expect(groups > 0, f"non-positive groups is not supported, got {groups}")
    expect(
        weight[0] >= groups and weight[0] % groups == 0,
        f"Given groups={groups}, expected weight to be at least {groups} and divisible by {groups} at dimension 0, "
        f"but got weight of size {list(weight)} instead",
    )
    channels = weight[0] if transposed else weight[1] * groups
    if input[1] != channels:
        given = f"transposed={int(transposed)}" if transposed else f"groups={groups}"
        raise refusal(
            RuntimeError,
            f"Given {given}, weight of size {list(weight)}, expected input{list(input)} to have {channels} channels, "
            f"but got {input[1]} channels instead",
            try_="the channels are the second dimension of a batch: x.movedim(-1, 1) if yours come last",
        )
    outputs = weight[1] * groups if transposed else weight[0]
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise refusal(
            RuntimeError,
            f"Given weight of size {list(weight)}, expected bias to be 1-dimensional with {outputs} elements, but got "
            f"bias of size {list(bias.shape)} instead",
        )


def batched(name: str, input: Any, weight: Any, rank: int) -> tuple[Any, bool]:
    """The input with a dimension for the batch, and whether it had one."""
    if input.ndim not in (rank + 1, rank + 2):
        raise refusal(
            RuntimeError,
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}",
        )
    if weight.ndim != rank + 2:
        what = f"{name}: expected a weight of {rank + 2} dimensions, but got weight of size {list(weight.shape)}"
        raise refusal(RuntimeError, what)
    single = input.ndim == rank + 1
    return (unsqueeze_row(input, (1, *input.shape)) if single else input), single


def paddings(padding: Any, kernel: Shape, stride: Shape, dilation: Shape) -> tuple[Shape, Shape]:
    """How much is added before and after each dimension."""
    rank = len(kernel)
    if not isinstance(padding, str):
        both = numbers("padding", padding, rank, 0)
        return both, both
    if padding == "valid":
        return (0,) * rank, (0,) * rank
    expect(padding == "same", f"Invalid padding string: '{padding}'")
    expect(max(stride) == 1, "padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple(n // 2 for n in total), tuple(n - n // 2 for n in total)


def counts(sizes: Shape, kernel: Shape, stride: Shape, around: list[int], dilation: Shape) -> Shape:
    """How many places a kernel has along each dimension."""
    padded = [n + added for n, added in zip(sizes, around, strict=True)]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(n < r for n, r in zip(padded, reach, strict=True)) or min(kernel) < 1:
        text = (" x ".join(map(str, numbers)) for numbers in (padded, reach))
        what = "Calculated padded input size per channel: ({}). Kernel size: ({}).".format(*text)
        raise refusal(
            RuntimeError, f"{what} Kernel size can't be greater than actual input size", try_="a padding, or 'same'"
        )
    expect(0 not in sizes, f"Only zero batch or zero channel inputs are supported, but got sizes {list(sizes)}")
    return tuple((n - r) // s + 1 for n, r, s in zip(padded, reach, stride, strict=True))
