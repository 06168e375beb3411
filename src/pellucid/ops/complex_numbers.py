"""Complex numbers: parts, conjugates, sizes and angles. These functions are not holomorphic.

A gradient is the derivative by the real part plus i times the derivative by the imaginary part, as in PyTorch. The
engine hands rules their saved values conjugated when those are complex, so a rule that wants the value itself
conjugates it once more; on real numbers that does nothing.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.inplace import in_place
from pellucid.core.primitive import add_up, general, multilinear
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Operators
from pellucid.ops.arguments import refusal
from pellucid.ops.compare import only, pairs, sign_of
from pellucid.ops.elementwise import cos, sin
from pellucid.ops.layout import lying, stride
from pellucid.ops.operation import (
    LAYOUT_DECIDES,
    Draw,
    Sample,
    broadcast_hint,
    call,
    named,
    operation,
    publish,
    unary_samples,
)
from pellucid.ops.select import drop, kind_of
from pellucid.ops.shape import zeros_like_row


def _is_complex(value: Any) -> bool:
    return kind_of(value) == "c"


def both(draw: Draw) -> Iterable[Sample]:
    """Real and complex tensors."""
    yield from unary_samples(draw)
    for shape in [(), (3,), (2, 3), (0,)]:
        yield call(draw.complex(*shape))


def complex_only(draw: Draw) -> Iterable[Sample]:
    """Complex tensors."""
    for shape in [(), (1,), (3,), (2, 3), (2, 1, 3), (0,), (2, 0), (1, 1), (4, 2)]:
        yield call(draw.complex(*shape))
    yield call(draw.complex(3, 2).mT)


# --- conjugate

conj_row = bind(
    multilinear(
        "conj",
        lambda a: np.conjugate(a) if a.dtype.kind == "c" else a,
        lambda g: conj_row(g),
        batch=lambda op, a: op(a),
    )
)
conj_physical_row = bind(
    multilinear("conj_physical", np.conjugate, lambda g: conj_physical_row(g), batch=lambda op, a: op(a))
)


def conj(input: Any) -> Any:
    """The complex conjugate; a real tensor is returned as it is.

    >>> import pellucid as torch
    >>> torch.conj(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return conj_row(input) if _is_complex(input) else input


@operation(samples=both, inplace=True)
def conj_physical(input: Any) -> Any:
    """The complex conjugate in memory of its own; a real tensor is returned as it is."""
    return conj_physical_row(input) if _is_complex(input) else input


publish(conj, samples=both)

# --- parts

real_row = bind(
    multilinear(
        "real", lambda a: a.real, lambda g: g + 0j, view=True, grad_name="SelectBackward0", batch=lambda op, a: op(a)
    )
)
imag_row = bind(
    multilinear(
        "imag", lambda a: a.imag, lambda g: g * 1j, view=True, grad_name="SelectBackward0", batch=lambda op, a: op(a)
    )
)


def real(input: Any) -> Any:
    """The real part, a view; a real tensor is returned as it is.

    >>> import pellucid as torch
    >>> torch.real(torch.tensor([1 + 2j, 3 - 4j]))
    tensor([1., 3.])
    """
    return real_row(input) if _is_complex(input) else input


def imag(input: Any) -> Any:
    """The imaginary part of a complex tensor, a view.

    >>> import pellucid as torch
    >>> torch.imag(torch.tensor([1 + 2j, 3 - 4j]))
    tensor([ 2., -4.])
    """
    if not _is_complex(input):
        raise refusal(
            RuntimeError,
            "imag is not implemented for tensors with non-complex dtypes.",
            try_="torch.zeros_like(x): a real tensor has no imaginary part",
        )
    return imag_row(input)


def _real_part(value: Any) -> Any:
    """Inside a rule: the real part of any kind of array."""
    return real_row(value) if _is_complex(value) else value


publish(real, samples=both, methods=())
publish(imag, samples=complex_only, methods=())


def _write_real(self: Any, value: Any) -> None:
    real(self)[...] = value


def _write_imag(self: Any, value: Any) -> None:
    imag(self)[...] = value


setattr(Operators, "real", property(real, _write_real))  # noqa: B010 (mypy knows no attributes that come later)
setattr(Operators, "imag", property(imag, _write_imag))  # noqa: B010

# --- a complex number out of two real ones: its parts, or its size and angle


def _joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Part by part: in a + b * 1j an infinity or NaN of one part spoils the other."""
    y = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, np.complex64))
    y.real, y.imag = a, b
    return y


def _joined_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    first, second = tangents
    return add_up([*([] if first is None else [first + y * 0]), *([] if second is None else [second * 1j + y * 0])])


complex_row = bind(
    general(
        "complex", only("f", _joined), lambda g: _real_part(g), lambda g: imag_row(g), jvp=_joined_jvp,
        dtypes="equal", elementwise=True, hint=broadcast_hint,
    )
)  # fmt: skip


def _polar(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _joined(a * np.cos(b), a * np.sin(b))


def _direction(b: Any) -> Any:
    """exp(ib)."""
    return complex_row(cos(b), sin(b))


def _polar_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    size, turn = tangents
    terms = [] if size is None else [size * _direction(inputs[1])]
    return add_up(terms if turn is None else [*terms, turn * (y * 1j)])


polar_row = bind(
    general(
        "polar", only("f", _polar), lambda g, b: _real_part(g * conj_row(_direction(b))),
        lambda g, y: imag_row(g * conj_row(y)),
        jvp=_polar_jvp, dtypes="equal", elementwise=True, hint=broadcast_hint,
    )
)  # fmt: skip


@operation(name="complex", samples=pairs, methods=(), out="exact", tensors=2)
def complex_(real: Any, imag: Any) -> Any:
    """The complex tensor with these two parts.

    >>> import pellucid as torch
    >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([1.+2.j])
    """
    return complex_row(real, imag)


@operation(samples=pairs, methods=(), domain=(0.3, 2.0), out="exact", tensors=2)  # a size is positive
def polar(abs: Any, angle: Any) -> Any:
    """The complex tensor with these sizes and angles."""
    return polar_row(abs, angle)


# --- size, direction, angle


def _sgn(a: np.ndarray) -> np.ndarray:
    """z / |z|, and 0 at 0. By parts: a complex division would spread the NaN of an infinite part to the other."""
    if a.dtype.kind != "c":
        return sign_of(a)
    size = np.abs(a)
    size = size + (size == 0)
    y = np.empty_like(a)
    np.divide(a.real, size, y.real)
    np.divide(a.imag, size, y.imag)
    return y


def _turned(g: Any, a: Any) -> Any:
    """How z / |z| moves when z moves by g: across the direction of z only. The same both ways."""
    if not _is_complex(a):
        return zeros_like_row(g)
    size, direction = abs(a), sgn(a)
    still = size == 0
    across = g - direction * _real_part(conj_row(direction) * g)
    return drop(across / (size + still), still)


sgn = bind(
    general(
        "sgn", _sgn, lambda g, a: _turned(g, conj_row(a)), jvp=lambda t, y, inputs, params: _turned(t[0], inputs[0]),
        dtypes="promote", batch=lambda op, a: op(a),
    )
)  # fmt: skip
abs = bind(
    general(
        "abs", np.absolute, lambda g, a: g * conj_row(sgn(a)),
        jvp=lambda t, y, inputs, params: _real_part(conj_row(sgn(inputs[0])) * t[0]),
        dtypes="promote", lower="llvm.fabs", batch=lambda op, a: op(a),
    ),
    "__abs__",
)  # fmt: skip
publish(
    sgn, samples=both, inplace=True, doc="Each element divided by its size: -1, 0, 1, or a direction if it is complex."
)
publish(
    abs, samples=both, aliases=("absolute",), out="cast",
    doc="""The absolute value of each element; of a complex number its distance from 0.

    >>> import pellucid as torch
    >>> torch.abs(torch.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """,
)  # fmt: skip


def _abs_in_place(self: Any) -> Any:
    """In-place form of `abs`; a complex tensor has no room for it that would be real."""
    if _is_complex(self):
        raise refusal(
            RuntimeError, "In-place abs is not supported for complex tensors.", try_="use the out-of-place form"
        )
    return _real_abs_in_place(self)


_real_abs_in_place = in_place(abs, "abs_")
for _name in ("abs_", "absolute_"):
    attach(_name, named(_abs_in_place, _name))


def _angle(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "c":
        return np.arctan2(a.imag, a.real)
    return np.where(np.isnan(a), a, np.where(a < 0, np.pi, 0)).astype(a.dtype, copy=False)


def _angle_rule(g: Any, a: Any) -> Any:
    """i z / |z|² for complex z, 0 for a real number."""
    if not _is_complex(a):
        return zeros_like_row(g)
    square = _real_part(conj_row(a) * a)
    still = square == 0
    return drop(g * (a * 1j / (square + still)), still)


def _angle_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (t,), (a,) = tangents, inputs
    return _real_part(conj_row(_angle_rule(y * 0 + 1, a)) * t) if _is_complex(a) else zeros_like_row(t)


_angle_row = bind(
    general(
        "angle", _angle, lambda g, a: _angle_rule(g, conj_row(a)), jvp=_angle_jvp, dtypes="float",
        batch=lambda op, a: op(a),
    )
)  # fmt: skip


@operation(samples=both, out="cast")
def angle(input: Any) -> Any:
    """The angle of each complex number, from -π to π; of real numbers 0 or π.

    >>> import pellucid as torch
    >>> torch.angle(torch.tensor([1j, -1 + 0j]))
    tensor([1.5708, 3.1416])
    """
    return _angle_row(input)


# --- complex numbers as pairs


def _as_real(a: ndarray) -> ndarray:
    return a[..., None].view(a.real.dtype)


def _as_complex(a: ndarray) -> ndarray:
    if a.strides[-1] != a.itemsize:
        a = a.copy()
    return a.view(np.result_type(a.dtype, np.complex64))[..., 0]


view_as_real_row = bind(
    multilinear("view_as_real", _as_real, lambda g: view_as_complex_row(g), view=True, batch=lambda op, a: op(a))
)
view_as_complex_row = bind(
    multilinear("view_as_complex", _as_complex, lambda g: view_as_real_row(g), view=True, batch=lambda op, a: op(a))
)


@operation(
    samples=lambda draw: [
        call(draw.complex(2, 3)), call(draw.complex()), call(draw.complex(0)), call(draw.complex(1)),
        call(draw.complex(3)), call(draw.complex(1, 1)), call(draw.complex(2, 2, 2)), call(draw.complex(4, 1)),
        call(draw.complex(2, 3).mT), call(draw.complex(2, 0)),
    ],
    unclaimed=dict.fromkeys(("gradient_equals_torch", "second_order_equals_torch"), "PyTorch refuses the empty sample"),
)  # fmt: skip
def view_as_real(input: Any) -> Any:
    """A complex tensor as pairs (real, imaginary) in a new last dimension: a view.

    >>> import pellucid as torch
    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if np.dtype(input.array.dtype).kind != "c":
        raise refusal(RuntimeError, "view_as_real is only supported for complex tensors")
    return view_as_real_row(input)


@operation(
    samples=lambda draw: [
        call(draw(2, 2)), call(draw(2)), call(draw(3, 1, 2)), call(draw(1, 2)), call(draw(5, 2)), call(draw(2, 3, 2)),
        call(draw(1, 1, 2)), call(draw(3, 2, 2)), call(draw(4, 2)), call(draw(2, 1, 1, 2)),
    ], unclaimed=LAYOUT_DECIDES,
)  # fmt: skip
def view_as_complex(input: Any) -> Any:
    """Pairs (real, imaginary) in the last dimension as complex numbers: a view.

    >>> import pellucid as torch
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    if np.dtype(input.array.dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise refusal(
            RuntimeError,
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of {input.dtype}",
        )
    if not input.ndim or input.shape[-1] != 2:
        raise refusal(RuntimeError, "Tensor must have a last dimension of size 2")
    steps = stride(input) if lying(input.array) is not None else None
    if steps is not None and steps[-1] != 1:
        raise refusal(RuntimeError, "Tensor must have a last dimension with stride 1")
    outer = () if steps is None else zip(input.shape[:-1], steps[:-1], strict=True)
    if any(step % 2 for size, step in outer if size > 1):
        raise refusal(RuntimeError, "Tensor must have a stride divisible by 2 for all but last dimension")
    return view_as_complex_row(input)
