"""Batch, instance and group norm: channels, or groups of them, are normalised over the batch or by themselves."""

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing
from pellucid.core.modes import MODE
from pellucid.core.primitive import constant
from pellucid.core.record import bind
from pellucid.core.tensor import bearing
from pellucid.ops.along import bare
from pellucid.ops.arguments import Shape, expect, number, refusal
from pellucid.ops.convert import as_type
from pellucid.ops.create import empty
from pellucid.ops.elementwise import rsqrt
from pellucid.ops.nn.norm_kernels import Layout, layout_of
from pellucid.ops.nn.normalise import batch_norm_row, group_norm_row, normal, statistics_dtype, wide_dtype
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.reduce import mean
from pellucid.ops.shape import reshape


@lru_cache(maxsize=512)
def blocks(shape: Shape, groups: int, across: bool) -> Layout:
    """Each group of channels together, by itself or `across` the batch."""
    batch, channels, size = shape[0], shape[1], prod(shape[2:])
    view = (batch, groups, channels // max(groups, 1), size)
    return layout_of(view, (0, 2, 3) if across else (2, 3), (*view[1:3], 1))


# --- batch norm


def _check_channels(input: Any, **given: Any) -> None:
    """Every weight, bias and running statistic has one number for each channel."""
    channels = input.shape[1] if input.ndim > 1 else 0
    for name, tensor in given.items():
        if tensor is not None and tensor.array.shape != (channels,):
            count = prod(tensor.shape)
            why = f"the input has shape {tuple(input.shape)}, so {channels} channels"
            expect(count == channels, f"{name} should contain {channels} elements not {count}", why)


def _moved(running: np.ndarray, moments: np.ndarray, which: int, momentum: float, factor: float) -> np.ndarray:
    """A running statistic, moved towards the mean over the batch of the moments of each channel."""
    value = moments[which]
    value = value.reshape(value.shape[0], -1)
    new = value[0] if len(value) == 1 else np.add.reduce(value, 0) / len(value)
    return np.asarray(running * (1 - momentum) + new * (momentum * factor), running.dtype)


_moved_row = bind(constant("running_statistic", _moved, 2))


def _update(running_mean: Any, running_var: Any, moments: Any, layout: Layout, momentum: float) -> None:
    """Move the running statistics towards the batch's; the variance is that of a sample (divided by n - 1)."""
    momentum = number(momentum)
    if type(momentum) not in (float, int):
        what = f"batch_norm(): argument 'momentum' (position 7) must be float, not {type(momentum).__name__}"
        raise refusal(TypeError, what)
    if _plainly(running_mean, running_var, moments):
        return _update_in_place(running_mean.array, running_var.array, moments.array, layout, momentum)
    moved = []
    for running, which, factor in ((running_mean, 0, 1.0), (running_var, 2, layout.size / max(layout.size - 1, 1))):
        if running is not None:
            moved.append((running, _moved_row(bare(running), moments, which, momentum, factor)))
    for running, new in moved:  # both are known to be computable before either is written
        running.copy_(new)


def _plainly(running_mean: Any, running_var: Any, moments: Any) -> bool:
    """Whether nothing but the arrays is concerned, so that they can be written at once."""
    if running_mean is None or running_var is None or MODE.get() is not None or type(moments.array) is not np.ndarray:
        return False
    dtype = moments.array.dtype
    return all(
        type(each.array) is np.ndarray and each.array.dtype is dtype and each.array.flags.writeable
        and each.node is None and each.window is None and each.cut is None
        for each in (running_mean, running_var)
    )  # fmt: skip


def _update_in_place(mean: np.ndarray, var: np.ndarray, moments: np.ndarray, layout: Layout, momentum: float) -> None:
    """The same on arrays, in a tenth of the time: more than a small layer takes for everything else."""
    for running, which, factor in ((mean, 0, 1.0), (var, 2, layout.size / max(layout.size - 1, 1))):
        new = moments[which].reshape(moments.shape[1], -1)
        new = new[0] if len(new) == 1 else np.add.reduce(new, 0) / len(new)
        running *= 1 - momentum
        running += (new * (momentum * factor)).reshape(running.shape)
    aliasing.note_writes((aliasing.record_of(mean), aliasing.record_of(var)), "batch_norm")


def _standing(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float) -> Any:
    """Normalise by statistics that are given: one scale and one shift per channel."""
    scale = rsqrt(as_type(running_var, wide_dtype(input)) + eps)
    if weight is not None:
        scale = scale * weight
    shift = -as_type(running_mean, wide_dtype(input)) * scale
    if bias is not None:
        shift = shift + bias
    shape = (-1, *(1,) * (input.ndim - 2))
    return as_type(as_type(input, wide_dtype(input)) * reshape(scale, shape) + reshape(shift, shape), input.dtype)


def _batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, Any]:
    if input.ndim < 2 and not prod(input.shape):
        return input.clone(), None
    _check_channels(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not training:
        given = running_mean is not None and running_var is not None
        expect(given, "running_mean must be defined in evaluation mode")
        result = _standing(input, weight, bias, running_mean, running_var, eps)
        return bearing("NativeBatchNormBackward0", result), None
    layout = blocks(tuple(input.shape), input.shape[1], True)
    result, moments = normal(batch_norm_row, "batch_norm", input, weight, bias, layout, eps)
    if prod(input.shape):  # the running statistics learn nothing from a batch without values
        _update(running_mean, running_var, moments, layout, momentum)
    return result, moments


def _more_than_one(shape: Shape) -> None:
    if shape and shape[0] * prod(shape[2:]) == 1:
        what = f"Expected more than 1 value per channel when training, got input size {dtypes.Size(shape)}"
        raise refusal(ValueError, what, "the variance of one value is 0, and its normalised value always 0")


def _batch_samples(draw: Draw) -> list[Sample]:
    statistics = (draw(3).detach(), draw(3, low=0.5, high=2.0).detach())
    return [
        call(draw(4, 3), None, None, draw(3), draw(3), True), call(draw(2, 3, 4), None, None, draw(3), draw(3), True),
        call(draw(2, 3, 2, 2), None, None, draw(3), None, True, eps=0.1), call(draw(4, 3), None, None, training=True),
        call(draw(2, 3, 4), *statistics, draw(3), draw(3)), call(draw(4, 3), *statistics),
        call(draw(2, 3, 2, low=50.0, high=51.0), None, None, draw(3), draw(3), True),
        call(draw(2, 3, 1), *statistics, draw(3), None, False, 0.1, 0.2),
        call(draw(60, 3, 10, 10), None, None, draw(3), draw(3), True), call(draw(7000, 3), None, None, training=True),
        call(draw(7, 3, 30, 30, low=30.0, high=31.0), None, None, draw(3), draw(3), True),
    ]  # fmt: skip


@operation(samples=_batch_samples, module="torch.nn.functional")
def batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Move and scale each channel to mean 0 and variance 1 over the batch, then weight and shift it.

    In training the statistics are the batch's, and the running ones, where given, move towards them in place by
    `momentum`; otherwise the running ones are used.

    >>> import pellucid as torch
    >>> batch_norm(torch.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training:
        _more_than_one(tuple(input.shape))
    if eps < 0 or (training and eps == 0):
        word = "positive during training" if training else "non-negative"
        raise refusal(ValueError, f"batch_norm eps must be {word}, but got {eps}")
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def _native_samples(draw: Draw) -> list[Sample]:
    statistics = (draw(3).detach(), draw(3, low=0.5, high=2.0).detach())
    return [
        call(draw(4, 3), draw(3), draw(3), None, None, True, 0.1, 1e-5),
        call(draw(2, 3, 4), None, None, None, None, True, 0.1, 1e-3),
        call(draw(2, 3, 4), draw(3), draw(3), *statistics, False, 0.1, 1e-5),
        call(draw(2, 3, 2, 2), draw(3), None, None, None, True, 0.5, 1e-5),
    ]  # fmt: skip


@operation(
    name="batch_norm", methods=(), reference="torch.batch_norm",
    samples=lambda draw: [call(*sample.args, True) for sample in _native_samples(draw)],
)  # fmt: skip
def _torch_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """`nn.functional.batch_norm` with the arguments in the order of the main namespace."""
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@operation(samples=_native_samples, methods=())
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """The batch norm with the mean and 1 / sqrt(var + eps) of the batch, empty unless training.

    >>> import pellucid as torch
    >>> torch.native_batch_norm(torch.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5)[1]
    tensor([2.])
    """
    result, moments = _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    dtype = statistics_dtype(input, weight, bias, running_mean)
    if moments is None:
        return result, empty(0, dtype=dtype), empty(0, dtype=dtype)
    return result, *(as_type(reshape(moments[k], -1), dtype) for k in (0, 1))


@operation(
    samples=lambda draw: [
        call(draw(4, 3), draw(3), draw(3), True, 0.1, 1e-5), call(draw(2, 3, 4), None, None, True, 0.1, 1e-3),
        call(draw(2, 3, 4), draw(3), draw(3), draw(3).detach(), draw(3).abs().detach(), False, 0.1, 1e-5),
    ],
    methods=(), unclaimed=COMPOSED,
)  # fmt: skip
def _native_batch_norm_legit(input: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    """`native_batch_norm`, with the running statistics or without: (training, momentum, eps) alone at the end.

    >>> import pellucid as torch
    >>> torch._native_batch_norm_legit(torch.tensor([[1.0], [3.0]]), None, None, True, 0.1, 0.0)[0].flatten()
    tensor([-1.,  1.])
    """
    statistics = rest if len(rest) == 5 else (None, None, *rest)
    return native_batch_norm(input, weight, bias, *statistics)


@operation(
    samples=lambda draw: [
        call(draw(4, 3), draw(3), draw(3), draw(3).detach(), draw(3).detach(), 0.0, 1e-5),
        call(draw(2, 3, 4), draw(3), draw(3), draw(3).detach(), draw(3).detach(), 0.0, 1e-3),
    ],
    methods=(), reference="torch.ops.aten._batch_norm_with_update",
    unclaimed={
        **COMPOSED, "layout_does_not_matter": "writes to the running statistics",
        "batching_is_a_loop": "the running statistics of a batch of batches have no room in one tensor",
    },
)  # fmt: skip
def _batch_norm_with_update(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float
) -> Any:
    """`native_batch_norm` in training, with an empty fourth result that other devices have a use for.

    >>> import pellucid as torch
    >>> x, mean, var = torch.tensor([[1.0], [3.0]]), torch.zeros(1), torch.ones(1)
    >>> torch._batch_norm_with_update(x, None, None, mean, var, 0.5, 0.0)[0].flatten(), mean
    (tensor([-1.,  1.]), tensor([1.]))
    """
    results = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *results, empty(0, dtype=dtypes.uint8)


# --- instance norm: each channel of each example by itself


@operation(
    samples=lambda draw: [
        call(draw(2, 3, 4)), call(draw(2, 3, 4), None, None, draw(3), draw(3)), call(draw(2, 3, 2, 2), eps=0.1),
        call(draw(1, 3, 4), weight=draw(3)),
        call(draw(2, 3, 4), draw(3).detach(), draw(3, low=0.5, high=2.0).detach(), draw(3), draw(3), False),
    ],
    module="torch.nn.functional", unclaimed=COMPOSED,
)  # fmt: skip
def instance_norm(
    input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """Move and scale each channel of each example to mean 0 and variance 1, then weight and shift it.

    >>> import pellucid as torch
    >>> instance_norm(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if use_input_stats and prod(input.shape[2:]) == 1:
        what = f"Expected more than 1 spatial element when training, got input size {input.shape}"
        raise refusal(ValueError, what)
    return _torch_instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


@operation(
    name="instance_norm", methods=(), unclaimed=COMPOSED,
    samples=lambda draw: [
        call(draw(2, 3, 4), draw(3), draw(3), None, None, True, 0.1, 1e-5, True),
        call(draw(2, 3, 4), None, None, None, None, True, 0.1, 1e-3, True),
    ],
)  # fmt: skip
def _torch_instance_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """`nn.functional.instance_norm` with the arguments in the order of the main namespace."""
    _check_channels(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not use_input_stats:
        given = running_mean is not None and running_var is not None
        expect(given, "Expected running_mean and running_var to be defined when use_input_stats is false")
        return bearing("ViewBackward0", _standing(input, weight, bias, running_mean, running_var, eps))
    layout = blocks(tuple(input.shape), input.shape[1], False)
    input = input.contiguous()  # PyTorch looks at the images one by one, in the order of their shape
    result, moments = normal(batch_norm_row, "batch_norm", input, weight, bias, layout, eps)
    _update(running_mean, running_var, moments, layout, momentum)
    return bearing("ViewBackward0", result)  # PyTorch makes one image of the batch, and in the end the batch of it


# --- group norm


def _group_norm(input: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> tuple[Any, Any]:
    shape = tuple(input.shape)
    expect(len(shape) > 1, f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    expect(num_groups > 0, f"Expected num groups to be greater than 0, got {num_groups}")
    expect(
        shape[1] % num_groups == 0,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape "
        f"{list(shape)} and num_groups={num_groups}",
    )
    _check_channels(input, weight=weight, bias=bias)
    layout = blocks(shape, num_groups, False)
    return normal(group_norm_row, "GroupNormKernelImpl", input, weight, bias, layout, eps)


def _group_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(2, 4, 3), 2, draw(4), draw(4)), call(draw(2, 6), 3, draw(6), draw(6)), call(draw(2, 4, 2, 2), 1),
        call(draw(2, 4, 3), 4, draw(4), None, 0.1), call(draw(0, 4), 2),
        call(draw(1, 4, 3, low=40.0, high=42.0), 2, draw(4), draw(4)), call(draw(50, 4, 10, 10), 2, draw(4), draw(4)),
    ]  # fmt: skip


@operation(samples=_group_samples, module="torch.nn.functional")
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Move and scale each group of channels of each example to mean 0 and variance 1, then weight the channels.

    >>> import pellucid as torch
    >>> group_norm(torch.tensor([[1.0, 3.0, 5.0, 9.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    shape = tuple(input.shape)
    if len(shape) > 1 and num_groups > 0:
        _more_than_one((shape[0] * shape[1] // num_groups, num_groups, *shape[2:]))
    return _group_norm(input, num_groups, weight, bias, eps)[0]


@operation(name="group_norm", samples=lambda draw: _group_samples(draw)[:2], methods=())
def _torch_group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Any:
    """`nn.functional.group_norm` under its name in the main namespace."""
    return _group_norm(input, num_groups, weight, bias, eps)[0]


@operation(
    samples=lambda draw: [
        call(draw(2, 4, 3), draw(4), draw(4), 2, 4, 3, 2, 1e-5), call(draw(2, 6), draw(6), draw(6), 2, 6, 1, 3, 1e-3),
        call(draw(2, 4, 2, 2), None, None, 2, 4, 4, 1, 0.1), call(draw(1, 2, 3), draw(2), None, 1, 2, 3, 2, 1e-5),
    ],
    methods=(),
)  # fmt: skip
def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> Any:
    """The group norm with the mean and 1 / sqrt(var + eps) of each group of each example.

    >>> import pellucid as torch
    >>> torch.native_group_norm(torch.tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 1e-5)[1]
    tensor([[2.]])
    """
    result, _ = _group_norm(input, group, weight, bias, eps)
    members = reshape(as_type(input, wide_dtype(input)), (N, group, C // group * HxW))
    centre = mean(members, 2, True)
    apart = members - centre
    spread = rsqrt(mean(apart * apart, 2) + eps)
    dtype = statistics_dtype(input, weight, bias)
    return result, *(as_type(part, dtype) for part in (reshape(centre, (N, group)), spread))
