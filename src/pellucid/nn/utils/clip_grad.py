"""Clipping: gradients that are too large are scaled, or cut, in place."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pellucid.core.commit import Call
from pellucid.core.inplace import copying, scaling, write_all
from pellucid.core.kinds import plain
from pellucid.core.provenance import here, warn
from pellucid.core.tensor import Tensor, wrap
from pellucid.errors import explain
from pellucid.native import native
from pellucid.native.words import Array, product

LANES = 8  # sums of squares that PyTorch keeps side by side
MANY = 4096  # numbers for which the order of their sum is seen in the losses of a training

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _gradients(parameters: Any) -> list[Any]:
    """The gradients that there are, of one parameter or of several."""
    given: Iterable[Any] = (parameters,) if isinstance(parameters, Tensor) else parameters
    return [parameter.grad for parameter in given if parameter.grad is not None]


@native
def squares_loop(first: int, last: int, a: Array, sums: Array, rows: int) -> None:
    """The squares of rows of eight, added to eight sums one row after the other."""
    for _ in range(first, last):
        for row in range(rows):
            for i in range(8):
                sums[i] = sums[i] + product(a[row * 8 + i], a[row * 8 + i])


def _squares(flat: np.ndarray) -> Any:
    """The sum of the squares of many float32 numbers, in the order in which PyTorch adds them up.

    The order loses digits: of a gradient with a million numbers the norm may be off by 2e-4. A training that clips is
    told apart by that, within some steps, from the same training in PyTorch; so the digits are lost here too.
    """
    rows = flat.size // LANES
    if squares_loop.fits(flat):
        sums = np.zeros(LANES, np.float32)
        squares_loop(1, flat.size, flat, sums, rows)
    else:
        table = flat[: rows * LANES].reshape(rows, LANES)
        sums = np.einsum("ij,ij->j", table, table)
    return np.add.accumulate(np.concatenate((sums, np.square(flat[rows * LANES :]))))[-1]


def _norm(array: np.ndarray, order: float) -> Any:
    """The norm of all elements of an array."""
    if not array.size:
        return array.dtype.type(0)
    if order == 2:
        large = array.dtype == np.float32 and array.size >= MANY
        return np.sqrt(_squares(array.ravel("K")) if large else np.vdot(array, array).real)
    if order == 0:
        return array.dtype.type(np.count_nonzero(array))
    sizes = np.abs(array)
    if abs(order) == np.inf:
        return sizes.max() if order > 0 else sizes.min()
    return np.power(np.add.reduce(sizes**order, axis=None), 1 / order)


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all elements of all tensors together.

    >>> import pellucid as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5.)
    """
    order = float(norm_type)
    arrays = [tensor.array for tensor in ((tensors,) if isinstance(tensors, Tensor) else tensors)]
    if not arrays:
        return wrap(np.zeros((), np.float32))
    dtype = plain(np.result_type(*arrays))
    wide = np.float32 if dtype.itemsize < 4 else dtype
    norms = [_norm(array if array.dtype.itemsize > 2 else array.astype(np.float32), order) for array in arrays]
    total = np.asarray(_norm(np.array(norms), order), np.finfo(wide).dtype)
    if error_if_nonfinite and not np.isfinite(total):
        raise RuntimeError(
            explain(
                f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be "
                "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
                "`error_if_nonfinite=False`",
                str(here()),
                try_="torch.autograd.detect_anomaly() names the first operation that made a NaN or an Inf",
            )
        )
    return wrap(total.astype(dtype) if dtype.itemsize < 4 else total)


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None) -> None:
    """Scale all gradients in place by one factor so that a norm already known comes down to `max_norm`.

    >>> import pellucid as torch
    >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
    >>> (x * x / 2).sum().backward()
    >>> norm = torch.nn.utils.get_total_norm([x.grad])
    >>> torch.nn.utils.clip_grads_with_norm_([x], max_norm=1.0, total_norm=norm)
    >>> norm, x.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    factor = float(max_norm) / (float(total_norm) + 1e-6)
    if factor >= 1:
        return
    grads = _gradients(parameters)

    def one_by_one() -> None:
        for grad in grads:
            grad.mul_(factor)

    write_all(grads, lambda: scaling(grads, factor, "mul_"), one_by_one)


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale all gradients in place so that their norm, taken together, is at most `max_norm`; returns what it was.

    >>> import pellucid as torch
    >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
    >>> (x * x / 2).sum().backward()
    >>> torch.nn.utils.clip_grad_norm_([x], max_norm=1.0)
    tensor(5.)
    >>> x.grad
    tensor([0.6000, 0.8000])
    """
    given, parameters = parameters, [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not parameters and isinstance(given, Iterator):
        warn("`parameters` is an empty generator, no gradient clipping will occur.")
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The old name of `clip_grad_norm_`."""
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.", FutureWarning
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Cut every element of every gradient, in place, to between -clip_value and clip_value.

    >>> import pellucid as torch
    >>> x = torch.tensor([3.0, -0.5], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> torch.nn.utils.clip_grad_value_([x], 2.0)
    >>> x.grad
    tensor([ 2., -1.])
    """
    limit, grads = float(clip_value), _gradients(parameters)

    def prepare() -> list[Call]:
        return copying(grads, [np.clip(grad.array, -limit, limit) for grad in grads], "clamp_")

    def one_by_one() -> None:
        for grad in grads:
            grad.clamp_(min=-limit, max=limit)

    write_all(grads, prepare, one_by_one)
