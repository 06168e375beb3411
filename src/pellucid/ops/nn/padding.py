"""Padding: a tensor made larger at its edges by a constant, or by its own elements; negative pads cut off.

`pad` lists the pads from the last dimension to the first, (left, right) each, as PyTorch does; the rows take them in
the order of the dimensions.
"""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.kinds import plain
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.ops.arguments import Shape, as_int, expect, refusal, refuse
from pellucid.ops.create import check_range
from pellucid.ops.formats import in_format
from pellucid.ops.nn.separable import Map, kind_of_map, separable
from pellucid.ops.nn.windows import last
from pellucid.ops.operation import call, operation

Pads = tuple[tuple[int, int], ...]  # (left, right) for each of the last dimensions

# --- a constant


def _constant_pad(a: ndarray, pads: Pads, value: Any) -> ndarray:
    """The array within a larger one full of a value; negative pads cut it first."""
    first = a.ndim - len(pads)
    inner = [slice(max(-left, 0), n - max(-right, 0)) for (left, right), n in zip(pads, a.shape[first:], strict=True)]
    part = a[last(*inner)]
    if all(left <= 0 and right <= 0 for left, right in pads):
        return part.copy()
    sizes = [n + left + right for (left, right), n in zip(pads, a.shape[first:], strict=True)]
    out = np.full((*a.shape[:first], *sizes), value, a.dtype)
    place = [slice(max(left, 0), m - max(right, 0)) for (left, right), m in zip(pads, sizes, strict=True)]
    out[last(*place)] = part
    return out


def _negative(pads: Pads) -> Pads:
    return tuple((-left, -right) for left, right in pads)


constant_pad_row = bind(
    general(
        "constant_pad_nd", in_format(_constant_pad), lambda g, pads, value: constant_pad_row(g, _negative(pads), 0),
        jvp=lambda tangents, y, inputs, params: constant_pad_row(tangents[0], params[0], 0),
        batch=lambda op, a, pads, value: op(a, pads, value),
    )
)  # fmt: skip


def _pads_of(name: str, input: Any, pad: Any) -> Pads:
    """The pads by dimension, checked."""
    given = tuple(map(as_int, pad))
    expect(len(given) % 2 == 0, f"{name}: Padding length must be divisible by 2, but it is {len(given)}")
    if len(given) > 2 * input.ndim:
        what = "Padding length too large. Length of pad should be no more than twice the number of dimensions"
        raise refusal(RuntimeError, f"{name}: {what}, got {len(given)} for an input of {input.ndim} dimensions")
    pads = tuple(zip(given[0::2], given[1::2], strict=True))[::-1]
    first = input.ndim - len(pads)
    for axis, (left, right) in enumerate(pads, first):
        size = input.shape[axis]
        if size + left + right < 0:
            raise refusal(
                RuntimeError,
                f"{name}: The input size {size}, plus negative padding {left} and {right} resulted in a negative "
                f"output size, which is invalid. Check dimension {axis} of your input.",
            )
    return pads


def _cut_within(name: str, input: Any, pads: Pads) -> Pads:
    """Refuse to cut off more than there is, even if something is added on the other side."""
    sizes = tuple(input.shape)[input.ndim - len(pads) :]
    fits = all(n + min(left, 0) + min(right, 0) >= 0 for (left, right), n in zip(pads, sizes, strict=True))
    expect(fits, f"{name}: negative padding {pads} cuts off more than the sizes {list(sizes)}")
    return pads


def _constant_samples(draw: Any) -> Any:
    return [
        call(draw(2, 3), (1, 2)), call(draw(2, 3), (0, 1, 2, 0), value=1.5), call(draw(3), [-1, 2]),
        call(draw(2, 3), (-1, -1)), call(draw(2, 1, 3), (1, 0, -1, 2, 0, 0)), call(draw(), ()),
        call(draw(2, 0), (1, 1)),
    ]  # fmt: skip


@operation(samples=_constant_samples, methods=())
def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Any:
    """The tensor with a constant around it: pads from the last dimension on, (left, right) each.

    >>> import pellucid as torch
    >>> torch.constant_pad_nd(torch.tensor([[1, 2]]), (1, 0, 0, 1), 7)
    tensor([[7, 1, 2],
            [7, 7, 7]])
    """
    return _with_constant("constant_pad_nd", input, _pads_of("constant_pad_nd", input, pad), value)


def _with_constant(name: str, input: Any, pads: Pads, value: Any) -> Any:
    check_range(value, plain(input.array.dtype))
    return constant_pad_row(input, _cut_within(name, input, pads), value)


# --- the tensor's own elements


@kind_of_map("reflect")
def _reflect(n: int, m: int, left: int) -> tuple[ndarray, None]:
    place = np.abs(np.arange(m) - left)
    return np.where(place >= n, 2 * (n - 1) - place, place)[None], None


@kind_of_map("replicate")
def _replicate(n: int, m: int, left: int) -> tuple[ndarray, None]:
    return np.clip(np.arange(m) - left, 0, n - 1)[None], None


@kind_of_map("circular")
def _circular(n: int, m: int, left: int) -> tuple[ndarray, None]:
    """What negative pads cut off does not come back on the other side."""
    begin, right = max(-left, 0), m - n - left
    length = n - begin - max(-right, 0)
    return begin + (np.arange(m) - max(left, 0))[None] % max(length, 1), None


def _rows(name: str, grad_name: str) -> dict[int, Any]:
    return {rank: separable(f"{name}{rank}d", grad_name.format(f"{rank}D")) for rank in (1, 2, 3)}


ROWS = {
    "reflect": _rows("reflection_pad", "ReflectionPad{}Backward0"),
    "replicate": _rows("replication_pad", "ReplicationPad{}Backward0"),
    "circular": _rows("pad_circular", "CopySlices"),
}


def _check(input: Any, mode: str, pads: Pads) -> None:
    """What PyTorch refuses in each mode."""
    shape: Shape = tuple(input.shape)
    rank, name = len(pads), f"pad(mode={mode!r})"
    sizes = shape[len(shape) - rank :]
    if rank not in (1, 2, 3) or len(shape) not in (rank + 1, rank + 2):
        what = "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now"
        raise refusal(NotImplementedError, what, f"{rank} dimensions of {len(shape)} were to be padded")
    if mode == "circular":
        left = [n + min(a, 0) + min(b, 0) for (a, b), n in zip(pads, sizes, strict=True)]
        fits = all(max(pair) <= n for pair, n in zip(pads, left, strict=True))
        expect(fits, f"{name}: Padding value causes wrapping around more than once: {pads} of {sizes}")
        return
    expect(
        0 not in shape[-rank - 1 :],
        f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size and other "
        f"non-zero dimensions for input, but got: {list(shape)}",
    )
    if mode == "reflect":
        fits = all(max(pair) < n for pair, n in zip(pads, sizes, strict=True))
        what = "Padding size should be less than the corresponding input dimension"
        expect(fits, f"{name}: {what}, but got: padding {pads} of input {list(shape)}")
    results = [n + sum(pair) for pair, n in zip(pads, sizes, strict=True)]
    expect(max(results) >= 1, f"{name}: input is too small. Calculated output {results}")


@operation(
    samples=lambda draw: [
        *_constant_samples(draw), call(draw(2, 4), (2, 1), "reflect"), call(draw(1, 2, 3, 4), (1, 2, -1, 2), "reflect"),
        call(draw(1, 2, 3, 2), (1, 1, 2, 0, 0, -1), mode="replicate"), call(draw(2, 1, 4), (-1, 3), "replicate"),
        call(draw(1, 2, 3), (2, 3), "circular"), call(draw(1, 1, 3, 4), (-1, 1, 2, 0), "circular"),
    ],
    module="torch.nn.functional",
)  # fmt: skip
def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """The tensor made larger at its edges: pads from the last dimension on, (left, right) each.

    The mode is "constant" (`value`, else 0), "reflect", "replicate" or "circular". Negative pads cut off.

    >>> import pellucid as torch
    >>> torch.nn.functional.pad(torch.tensor([[1, 2, 3]]), (2, 1), mode="reflect")
    tensor([[3, 2, 1, 2, 3, 2]])
    """
    pads = _pads_of("pad", input, pad)
    if mode == "constant":
        return _with_constant("pad", input, pads, 0 if value is None else value)
    if mode not in ROWS:
        raise refusal(NotImplementedError, f"Unrecognised padding mode {mode}", try_=f"one of {sorted(ROWS)}")
    expect(value is None or value == 0, f'Padding mode "{mode}" doesn\'t take in value argument')
    _check(input, mode, pads)
    if mode == "replicate":
        refuse(input, "b", "\"replication_pad\" not implemented for '{}'", NotImplementedError)
    sizes = tuple(input.shape)[input.ndim - len(pads) :]
    maps = tuple(
        None if (left, right) == (0, 0) else Map(mode, n, n + left + right, (left,))
        for (left, right), n in zip(pads, sizes, strict=True)
    )
    return ROWS[mode][len(pads)](input, maps)
