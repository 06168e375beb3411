"""Dropout: random elements, or whole channels, set to zero (or to SELU's lower bound) while training.

The draws are PyTorch's, bit for bit: one number per element or channel, in the order of memory.
"""

import math
import warnings
from typing import Any

import numpy as np

from pellucid.core.flags import Truth
from pellucid.core.kinds import plain
from pellucid.core.tensor import wrap
from pellucid.ops.arguments import expect
from pellucid.ops.create import like
from pellucid.ops.distributions import coins
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.random import fill_array
from pellucid.ops.shape import squeeze, unsqueeze

SELU_BOUND = 1.7580993408473766  # scale * alpha of SELU: what it gives for minus infinity, without the sign


def _noise(input: Any, p: float, features: bool, dtype: np.dtype | None = None) -> Any:
    """Ones with probability 1 - p, else zeros: one per element, or one per channel."""
    if features:
        expect(input.ndim >= 2, "Feature dropout requires at least 2 dimensions in the input")
        array = np.empty((*input.shape[:2], *(1,) * (input.ndim - 2)), plain(input.array.dtype))
    else:
        array = like("dropout", np.empty, input)
    array = array if dtype is None else array.astype(dtype)
    fill_array(array, coins(1 - p), None)
    return wrap(array)


def _dropped(input: Any, p: float, training: bool, inplace: bool, features: bool = False, alpha: bool = False) -> Any:
    """One of the four dropouts: of elements or channels, to zero or to SELU's bound."""
    expect(0 <= p <= 1, f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or not math.prod(input.shape):
        return input
    noise: Any
    shift: Any = None
    if p == 1:
        noise = wrap(np.zeros((), plain(input.array.dtype)))
    elif alpha:  # what is left is stretched and moved so that mean 0 and variance 1 stay
        noise = _noise(input, p, features)
        stretch = 1.0 / math.sqrt((SELU_BOUND**2 * p + 1) * (1 - p))
        shift = (noise - 1) * (SELU_BOUND * stretch) + SELU_BOUND * stretch * p
        noise = noise * stretch
    else:
        noise = _noise(input, p, features) / (1 - p)
    if inplace:
        return input.mul_(noise) if shift is None else input.mul_(noise).add_(shift)
    return input * noise if shift is None else input * noise + shift


def _check_chance(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


DRAWS = {
    "capture_replays": "a captured program draws anew at every call",
    "layout_does_not_matter": "numbers are drawn in the order of memory",
}
F = "torch.nn.functional"


def _samples(*shapes: tuple[int, ...]) -> Any:
    def samples(draw: Draw) -> list[Sample]:
        return [
            call(draw(*shapes[0]), 0.5, True), call(draw(*shapes[-1]), 0.0, True), call(draw(*shapes[0]), 1.0, True),
            call(draw(*shapes[-1]), 0.3, False), call(draw(*shapes[-1]), 0.25, training=True),
            call(draw(0, *shapes[0][1:]), 0.5, True),
        ]  # fmt: skip

    return samples


def _positional(*shapes: tuple[int, ...]) -> Any:
    return lambda draw: [
        call(draw(*shapes[0]), 0.5, True), call(draw(*shapes[-1]), 0.3, False), call(draw(*shapes[-1]), 1.0, True),
        call(draw(*shapes[0]), 0.0, True),
    ]  # fmt: skip


# --- torch.nn.functional


@operation(samples=_samples((2, 3), (3,)), module=F, unclaimed=DRAWS, tensors=1)
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: Truth = False) -> Any:
    """Set each element to zero with probability p and scale the others by 1 / (1 - p).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.functional.dropout(torch.ones(5), p=0.5)
    tensor([0., 0., 2., 0., 0.])
    """
    _check_chance(p)
    return _dropped(input, p, training, inplace)


@operation(samples=_samples((2, 3), (2, 2, 2)), module=F, unclaimed=DRAWS, tensors=1)
def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: Truth = False) -> Any:
    """Dropout for SELU networks: elements go to SELU's lower bound, and mean 0 and variance 1 stay.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.functional.alpha_dropout(torch.zeros(3), p=0.5, training=True)
    tensor([-0.7792, -0.7792,  0.7792])
    """
    _check_chance(p)
    return _dropped(input, p, training, inplace, alpha=True)


@operation(samples=_samples((2, 3, 2), (2, 2, 1, 2)), module=F, unclaimed=DRAWS, tensors=1)
def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: Truth = False) -> Any:
    """Alpha dropout of whole channels: dimension 1 counts the channels.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.functional.feature_alpha_dropout(torch.zeros(1, 3, 1), p=0.5, training=True).flatten()
    tensor([-0.7792, -0.7792,  0.7792])
    """
    _check_chance(p)
    return _dropped(input, p, training, inplace, features=True, alpha=True)


def _without_batch(input: Any, p: float, training: bool, inplace: bool) -> Any:
    """Channels along dimension 0: as a batch of one."""
    if inplace:
        return _dropped(input.unsqueeze_(0), p, training, True, features=True).squeeze_(0)
    return squeeze(_dropped(unsqueeze(input, 0), p, training, False, features=True), 0)


def _odd_rank(name: str, rank: int, wanted: str) -> None:
    what = f"{name}: Received a {rank}-D input to {name}, which is deprecated and will result in an error"
    warnings.warn(f"{what}: it is for {wanted} inputs; use dropout instead", stacklevel=3)


@operation(samples=_samples((2, 3, 2), (3, 2)), module=F, unclaimed=DRAWS)
def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: Truth = False) -> Any:
    """Dropout of whole channels of (N, C, L) or (C, L).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.functional.dropout1d(torch.ones(3, 2), p=0.5)
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.]])
    """
    _check_chance(p)
    what = f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input"
    expect(input.ndim in (2, 3), f"{what}. Channel-wise dropout needs channels, a length and perhaps a batch.")
    if input.ndim == 2:
        return _without_batch(input, p, training, inplace)
    return _dropped(input, p, training, inplace, features=True)


@operation(samples=_samples((2, 3, 2, 1), (1, 3, 1, 2)), module=F, unclaimed=DRAWS)
def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: Truth = False) -> Any:
    """Dropout of whole channels of (N, C, H, W).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.functional.dropout2d(torch.ones(1, 3, 1, 2), p=0.5)
    tensor([[[[0., 0.]],
    <BLANKLINE>
             [[0., 0.]],
    <BLANKLINE>
             [[2., 2.]]]])
    """
    _check_chance(p)
    if input.ndim == 3:
        what = "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout is desired"
        warnings.warn(f"{what} - input is interpreted as shape (N, C, L); use dropout1d to say so", stacklevel=2)
    elif input.ndim != 4:
        _odd_rank("dropout2d", input.ndim, "3D or 4D")
    return _dropped(input, p, training, inplace, features=True)


@operation(samples=_samples((2, 3, 2, 1, 2), (3, 1, 2, 1)), module=F, unclaimed=DRAWS)
def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: Truth = False) -> Any:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.functional.dropout3d(torch.ones(3, 1, 1, 1), p=0.5).flatten()
    tensor([0., 0., 2.])
    """
    _check_chance(p)
    if input.ndim not in (4, 5):
        _odd_rank("dropout3d", input.ndim, "4D or 5D")
    if input.ndim != 5:
        return _without_batch(input, p, training, inplace)
    return _dropped(input, p, training, inplace, features=True)


# --- torch


def _bare_form(name: str, features: bool, alpha: bool, *shapes: tuple[int, ...]) -> Any:
    """torch.dropout and its kin: all arguments are required, and `train` has another name."""

    def form(input: Any, p: float, train: bool) -> Any:
        return _dropped(input, p, train, False, features, alpha)

    form.__name__ = form.__qualname__ = name
    form.__doc__ = f"""What torch.nn.functional calls for {name.replace("_", " ")}: all arguments are required.

    >>> import pellucid as torch
    >>> torch.{name}(torch.ones(1, 2), 0.5, False)
    tensor([[1., 1.]])
    """
    return operation(samples=_positional(*shapes), methods=(), unclaimed=DRAWS, writers=(f"torch.{name}_",), name=name)(
        form
    )


torch_dropout = _bare_form("dropout", False, False, (2, 3), (3,))
torch_alpha_dropout = _bare_form("alpha_dropout", False, True, (2, 3), (3,))
torch_feature_dropout = _bare_form("feature_dropout", True, False, (2, 3, 2), (2, 3))
torch_feature_alpha_dropout = _bare_form("feature_alpha_dropout", True, True, (2, 3, 2), (2, 3))


@operation(samples=_positional((2, 3), (3,)), methods=(), unclaimed={**DRAWS, **COMPOSED})
def native_dropout(input: Any, p: float, train: bool | None) -> Any:
    """Dropout together with the mask of the elements that stay.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.native_dropout(torch.ones(3), 0.5, True)
    (tensor([0., 0., 2.]), tensor([False, False,  True]))
    """
    if train is False or not math.prod(input.shape):
        return input.clone(), wrap(np.ones(tuple(input.shape), np.bool_))
    mask = _noise(input, p, False, np.dtype(np.bool_))
    return input * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


@operation(
    samples=lambda draw: [call(draw(2, 3), draw.mask(2, 3), 2.0), call(draw(3), draw.mask(3), 1.0)],
    methods=(), reference="torch.ops.aten.native_dropout_backward", unclaimed=COMPOSED,
)  # fmt: skip
def native_dropout_backward(grad_output: Any, mask: Any, scale: float) -> Any:
    """The gradient of native_dropout: that of the elements that stayed, scaled.

    >>> import pellucid as torch
    >>> torch.native_dropout_backward(torch.ones(2), torch.tensor([True, False]), 2.0)
    tensor([2., 0.])
    """
    return grad_output * (mask.to(grad_output.dtype) * scale)
