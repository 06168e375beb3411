"""Every transform of every decomposition: matrices that are tall, wide, square, empty, and many at once.

The oracle is the function itself: finite differences for forward mode, the inner product for reverse mode, one
matrix after the other for vmap, differences of gradients for second order.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid import func, linalg
from pellucid.compiler import capture

Function = Callable[[Any], Any]


def projector(q: Any) -> Any:
    """What does not change with the signs of the columns, nor with the basis of the space that they span."""
    return q @ q.mT


def thin(u: Any, a: Any) -> Any:
    return u[..., :, : min(a.shape[-2:])]


def svd(a: Any, full_matrices: bool) -> list[Any]:
    u, s, vh = linalg.svd(a, full_matrices=full_matrices)
    left, right = thin(u, a), thin(vh.mT, a)
    return [s, left * left, right * right, left @ right.mT]


def qr(a: Any, mode: str) -> list[Any]:
    q, r = linalg.qr(a, mode=mode)
    return [r * r] if mode == "r" else [projector(thin(q, a)), r * r, q @ r]


def positive(a: Any) -> Any:
    """A symmetric positive matrix of any matrix."""
    return a @ a.mT + pellucid.eye(a.shape[-2], dtype=a.dtype) * 2.0


def symmetric(a: Any) -> Any:
    return a + a.mT


def eigh(a: Any) -> list[Any]:
    values, vectors = linalg.eigh(symmetric(a))
    return [values, vectors * vectors]


def eig(a: Any) -> list[Any]:
    values, vectors = linalg.eig(a)
    return [values.abs(), vectors.abs()]


def lu(a: Any) -> list[Any]:
    return list(linalg.lu(a)[1:])


def lstsq(a: Any) -> Any:
    right = pellucid.arange(a.shape[-2] * 2.0, dtype=a.dtype).reshape(a.shape[-2], 2).cos()
    return linalg.lstsq(a, right.expand(*a.shape[:-2], *right.shape))[0]


def reflections(a: Any) -> tuple[Any, Any]:
    return a * 0.3, a.sum(-2) * 0.1


def solved(a: Any) -> Any:
    return linalg.solve(a + 4.0 * pellucid.eye(a.shape[-1], dtype=a.dtype), a.mT)


OF_ANY: dict[str, Function] = {
    "svd": partial(svd, full_matrices=False), "svd, full": partial(svd, full_matrices=True), "svdvals": linalg.svdvals,
    "qr": partial(qr, mode="reduced"), "pinv": linalg.pinv, "lstsq": lstsq, "lu": lu,
    "nuclear norm": lambda a: linalg.matrix_norm(a, "nuc"), "2-norm": lambda a: linalg.matrix_norm(a, 2),
    "-2-norm": lambda a: linalg.matrix_norm(a, -2), "fro": lambda a: linalg.matrix_norm(a, "fro"),
    "1-norm": lambda a: linalg.matrix_norm(a, 1), "cond": linalg.cond,
    "cholesky": lambda a: linalg.cholesky(positive(a)),
    "multi_dot": lambda a: linalg.multi_dot([a.mT, a, a.mT]) if a.ndim == 2 else a.mT @ a @ a.mT,
    "cholesky_solve": lambda a: pellucid.cholesky_solve(a, linalg.cholesky(positive(a))),
    "cholesky_inverse": lambda a: pellucid.cholesky_inverse(linalg.cholesky(positive(a))),
    "solve_triangular": lambda a: linalg.solve_triangular(positive(a).tril(), a, upper=False),
    "vector norm": lambda a: linalg.vector_norm(a, 3, -1),
    "householder": lambda a: linalg.householder_product(*reflections(a if a.shape[-2] >= a.shape[-1] else a.mT)),
    "diagonal": lambda a: linalg.diagonal(a) * 2, "outer": lambda a: a[..., :, None] * a[..., None, :],
    "kron": lambda a: pellucid.kron(a, a) if a.ndim == 2 else a,
}  # fmt: skip
OF_SQUARE: dict[str, Function] = {
    "eigh": eigh, "eigvalsh": lambda a: linalg.eigvalsh(symmetric(a)),
    "eig": eig, "eigvals": lambda a: linalg.eigvals(a).abs(), "det": linalg.det,
    "slogdet": lambda a: linalg.slogdet(a)[1],
    "logdet": lambda a: pellucid.logdet(positive(a)), "inv": linalg.inv, "solve": solved,
    "matrix_power": lambda a: linalg.matrix_power(a, 3), "inverse power": lambda a: linalg.matrix_power(a, -2),
    "matrix_exp": lambda a: linalg.matrix_exp(a * 0.3), "trace": lambda a: a.diagonal(dim1=-2, dim2=-1).sum(-1),
    "lu_solve": lambda a: linalg.lu_solve(*linalg.lu_factor(a), a.mT), "tril": lambda a: a.tril() @ a.triu(1),
}  # fmt: skip
SHAPES = {"tall": (5, 3), "wide": (3, 5), "square": (4, 4), "tall, many": (2, 4, 3), "wide, many": (2, 3, 4)}
SQUARE = {"square": (4, 4), "square, many": (2, 3, 3), "one": (1, 1)}
EMPTY = {"no rows": (0, 3), "no columns": (3, 0), "none": (0, 3, 2), "nothing": (2, 0, 0)}

CASES = [
    *((name, of, *shape) for name, of in OF_ANY.items() for shape in SHAPES.items()),
    *((name, of, *shape) for name, of in OF_SQUARE.items() for shape in SQUARE.items()),
]
each_case = pytest.mark.parametrize(
    ("of", "shape"), [case[1::2] for case in CASES], ids=[f"{n}-{k}" for n, _, k, _ in CASES]
)


def flat(of: Function) -> Function:
    """A function whose results are one vector."""

    def joined(a: Any) -> Any:
        results = of(a)
        parts = list(results) if isinstance(results, (list, tuple)) else [results]
        return pellucid.cat([part.reshape(-1) for part in parts])

    return joined


def made(*shape: int, seed: int = 0) -> Any:
    return pellucid.tensor(np.random.default_rng(seed).normal(size=shape))


def close(ours: Any, theirs: Any, digits: float = 1e-9) -> None:
    scale = 1 + np.abs(theirs.numpy()).max(initial=0.0)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=0, atol=digits * scale)


def difference(f: Function, x: Any, t: Any, step: float = 1e-3) -> Any:
    """The derivative of f at x along t, to the fourth order of the step."""
    near, far = (f(x + k * step * t) - f(x - k * step * t) for k in (1, 2))
    return (8 * near - far) / (12 * step)


@each_case
def test_forward_mode_is_the_finite_difference(of: Function, shape: tuple[int, ...]) -> None:
    f, x, t = flat(of), made(*shape), made(*shape, seed=1)
    value, moved = func.jvp(f, (x,), (t,))
    close(value, f(x))
    close(moved, difference(f, x, t), 1e-7)
    close(func.linearize(f, x)[1](t), moved)


@each_case
def test_reverse_mode_is_its_transpose(of: Function, shape: tuple[int, ...]) -> None:
    f, x, t = flat(of), made(*shape), made(*shape, seed=1)
    value, pull = func.vjp(f, x)
    weights = made(*value.shape, seed=2)
    moved = func.jvp(f, (x,), (t,))[1]
    close((pull(weights)[0] * t).sum(), (moved * weights).sum())
    forwards, backwards = func.jacfwd(f)(x), func.jacrev(f)(x)
    close(forwards, backwards)
    close((forwards * t).flatten(1).sum(1), moved)


@each_case
def test_second_order_is_the_difference_of_the_first(of: Function, shape: tuple[int, ...]) -> None:
    f, x, t = flat(of), made(*shape), made(*shape, seed=1)
    weights = made(*f(x).shape, seed=2)
    slope = func.grad(lambda a: (f(a) * weights).sum())
    along = difference(slope, x, t)
    close(func.jvp(slope, (x,), (t,))[1], along, 1e-6)  # forward over reverse
    close(func.vjp(slope, x)[1](t)[0], along, 1e-6)  # reverse over reverse: the Hessian is symmetric
    moved = func.grad(lambda a: (func.jvp(f, (a,), (t,))[1] * weights).sum())  # reverse over forward
    close(moved(x), along, 1e-6)


@each_case
def test_vmap_does_one_matrix_after_the_other(of: Function, shape: tuple[int, ...]) -> None:
    f, many = flat(of), made(3, *shape)
    tangents = made(3, *shape, seed=1)
    close(func.vmap(f)(many), pellucid.stack([f(each) for each in many]))
    last = many.movedim(0, -1)
    close(func.vmap(f, in_dims=-1)(last), func.vmap(f)(many))
    pushed = func.vmap(lambda x, t: func.jvp(f, (x,), (t,))[1])(many, tangents)
    close(pushed, pellucid.stack([func.jvp(f, (x,), (t,))[1] for x, t in zip(many, tangents)]))
    weights = made(3, *f(many[0]).shape, seed=2)
    pulled = func.vmap(lambda x, w: func.vjp(f, x)[1](w)[0])(many, weights)
    close(pulled, pellucid.stack([func.vjp(f, x)[1](w)[0] for x, w in zip(many, weights)]))


@each_case
def test_a_captured_program_does_it_again(of: Function, shape: tuple[int, ...]) -> None:
    if of is eig:
        pytest.skip("its rule looks at values, which a program of one straight path cannot")
    f = flat(of)

    def slope(x: Any) -> Any:
        return func.grad(lambda a: (f(a) ** 2).sum())(x)

    program = capture(slope, made(*shape))
    other = made(*shape, seed=3)
    close(program(other), slope(other))


@pytest.mark.parametrize("shape", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("name", [*OF_ANY, *OF_SQUARE])
def test_of_nothing_there_is_nothing_or_a_refusal(name: str, shape: tuple[int, ...]) -> None:
    f, x = flat((OF_ANY | OF_SQUARE)[name]), made(*shape)
    try:
        value = f(x)
    except (RuntimeError, IndexError, ValueError) as refusal:
        for transform in (lambda: func.jvp(f, (x,), (x,)), lambda: func.jacrev(f)(x)):  # in the same words
            with pytest.raises(type(refusal)):
                transform()
        return
    assert func.jvp(f, (x,), (x,))[1].shape == value.shape
    assert func.vjp(f, x)[1](pellucid.ones_like(value))[0].shape == x.shape
    for jacobian in (func.jacfwd, func.jacrev):
        assert jacobian(f)(x).shape == (*value.shape, *x.shape)
    assert func.vmap(f)(pellucid.stack([x, x])).shape == (2, *value.shape)


REFUSED: dict[str, tuple[Function, tuple[int, ...], str]] = {
    "R alone": (partial(qr, mode="r"), (4, 3), "depends on Q"),
    "R of a wide matrix": (partial(qr, mode="r"), (3, 4), "depends on Q"),
    "a complete Q of a tall matrix": (partial(qr, mode="complete"), (4, 3), "not differentiable when mode='complete'"),
    "LDL": (lambda a: linalg.ldl_factor(positive(a))[0], (3, 4), "linalg_ldl_factor_ex"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_derivative_is_refused_in_both_directions(name: str) -> None:
    of, shape, words = REFUSED[name]
    f, x = flat(of), made(*shape)
    assert f(x).isfinite().all()
    for transform in (
        lambda: func.jvp(f, (x,), (x,)), lambda: func.vjp(f, x)[1](f(x)), lambda: func.jacfwd(f)(x),
        lambda: func.jacrev(f)(x), lambda: func.linearize(f, x),
    ):  # fmt: skip
        with pytest.raises((RuntimeError, NotImplementedError), match=words):
            transform()
    assert pellucid.equal(func.vmap(f)(x[None])[0], f(x))


def test_a_complete_q_of_a_wide_matrix_has_a_derivative() -> None:
    f, x, t = flat(partial(qr, mode="complete")), made(3, 4), made(3, 4, seed=1)
    close(func.jvp(f, (x,), (t,))[1], difference(f, x, t), 1e-7)
    close(func.jacfwd(f)(x), func.jacrev(f)(x))


# --- on the edge of singular


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["inv", "solve", "cholesky", "inv_ex", "cholesky_ex", "solve_ex", "tensorinv"])
def test_a_matrix_on_the_edge_of_singular_has_a_result_or_a_refusal(name: str, dtype: type) -> None:
    """NumPy's LAPACK and SciPy's may not agree whether it is singular: then there is a result."""
    outcomes = set()
    for seed in range(60):
        random = np.random.default_rng(seed)
        size = int(random.integers(2, 7))
        a = random.normal(size=(size, size)).astype(dtype)
        a[-1] = a[0] if seed % 3 else a[0] * 2 + a[size // 2]
        x = pellucid.tensor(a @ a.T if "cholesky" in name else a)
        try:
            result = getattr(linalg, name)(
                *((x, x) if "solve" in name else (x,)), **({"ind": 1} if "tensor" in name else {})
            )
        except linalg.LinAlgError:
            outcomes.add("refused")
            continue
        assert (result[0] if "ex" in name else result).shape == x.shape
        outcomes.add("a result")
    assert outcomes == {"a result"} | ({"refused"} if "_ex" not in name else set())
