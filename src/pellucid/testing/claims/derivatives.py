"""Claims about values and derivatives: PyTorch's, and those of finite differences, to second order and forward."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.core import backward, modes
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_node
from pellucid.ops.operation import Operation, Sample
from pellucid.testing.claims.comparing import assert_close, assert_slope
from pellucid.testing.claims.oracle import dtype_name, plain, run_torch, torch, torch_gradients
from pellucid.testing.claims.registry import claim
from pellucid.testing.claims.samples import (
    all_finite,
    arrays_of,
    as_function,
    differentiable,
    fresh,
    gradients,
    inner,
    replaced,
    run,
    variables_in,
    weights_for,
)
from pellucid.transforms.differences import reals


@claim("torch")
def forward_equals_torch(operation: Operation, sample: Sample) -> None:
    """Values, dtype, shape and requires_grad are PyTorch's."""
    theirs = run_torch(operation, sample)
    if theirs is None:
        return
    ours = run(operation, sample)
    expected = theirs[0]
    assert len(ours) == len(expected), f"{len(ours)} results, expected {len(expected)}"
    for k, (y, e) in enumerate(zip(ours, expected, strict=True)):
        if not isinstance(e, torch().Tensor):
            assert not isinstance(y, Tensor), f"result {k} is a Tensor, expected {type(e).__name__}"
            assert str(y) == str(e) or y == e, f"result {k}: {y!r}, expected {e!r}"
            continue
        assert isinstance(y, Tensor), f"result {k} is {type(y).__name__}, expected a Tensor"
        assert dtype_name(y) == dtype_name(e), f"result {k}: {dtype_name(y)}, expected {dtype_name(e)}"
        assert y.requires_grad == e.requires_grad, f"result {k}: requires_grad {y.requires_grad}"  # type: ignore[attr-defined]
        assert_close(y.array, plain(e), 1e-12, f"result {k}")


@claim("torch")
def gradient_equals_torch(operation: Operation, sample: Sample) -> None:
    """First-order gradients are PyTorch's to 1e-10."""
    if not variables_in(sample):
        return
    theirs = run_torch(operation, sample)
    if theirs is None:
        return
    _, _, ours = gradients(operation, sample)
    compare_gradients(ours, torch_gradients(*theirs), 1e-10)


def compare_gradients(ours: Sequence[Tensor | None], theirs: Sequence[Any], rtol: float) -> None:
    """Equal gradients; None and zeros count as equal."""
    for k, (g, e) in enumerate(zip(ours, theirs, strict=True)):
        if g is None and e is None:
            continue
        mine = np.zeros(tuple(e.shape)) if g is None else g.array
        expected = np.zeros(g.array.shape) if e is None else plain(e)  # type: ignore[union-attr]
        assert_close(mine, expected, rtol, f"gradient of input {k}")


@claim()
def gradient_has_the_shape_of_its_tensor(operation: Operation, sample: Sample) -> None:
    """Every gradient has its tensor's shape and dtype."""
    _, variables, found = gradients(operation, sample)
    for k, (g, x) in enumerate(zip(found, variables, strict=True)):
        if g is not None:
            assert g.array.shape == x.array.shape, f"gradient {k}: {g.array.shape}, expected {x.array.shape}"
            assert g.array.dtype == x.array.dtype, f"gradient {k}: {g.array.dtype}, expected {x.array.dtype}"


@claim()
def gradient_equals_differences(operation: Operation, sample: Sample) -> None:
    """⟨Jᵀg, v⟩ equals the central difference of ⟨g, f⟩ along a random direction v."""
    results, variables, found = gradients(operation, sample)
    weights = weights_for([y.array for y in differentiable(results)])
    chosen = [k for k, y in enumerate(results) if isinstance(y, Tensor) and current_node(y) is not None]

    def height(moved: Sample) -> float:
        with modes.no_grad():
            values = run(operation, moved)
        return inner(weights, [values[k].array for k in chosen])

    if weights and variables and all_finite(results):
        compare_slope(sample, variables, arrays_of(found), height, "gradient")


def compare_slope(
    sample: Sample, variables: Sequence[Tensor], found: Sequence[Any], height: Callable[[Sample], float], what: str
) -> None:
    """Compare a gradient with the difference quotient of its function along one random direction."""
    directions = weights_for([x.array for x in variables], seed=11)
    analytic = inner(found, directions)
    scale = math.fsum(
        float(np.abs(reals(g)) @ np.abs(reals(v))) for g, v in zip(found, directions, strict=True) if g is not None
    )
    numeric = central_slope(sample, variables, directions, height)
    assert_slope(analytic, numeric, scale, what)


def central_slope(
    sample: Sample, variables: Sequence[Tensor], directions: Sequence[np.ndarray], height: Callable[[Sample], float]
) -> float:
    """Central differences with steps h and h/2, extrapolated: the error is of order h⁴."""
    step = 1e-4
    wide = height(shifted(sample, variables, directions, step)) - height(shifted(sample, variables, directions, -step))
    half = step / 2
    narrow = height(shifted(sample, variables, directions, half)) - height(
        shifted(sample, variables, directions, -half)
    )
    return (4 * narrow / step - wide / (2 * step)) / 3


def shifted(sample: Sample, variables: Sequence[Tensor], directions: Sequence[np.ndarray], step: float) -> Sample:
    """The sample with its variables moved along their directions."""
    moves = {id(x): direction for x, direction in zip(variables, directions, strict=True)}

    def new(tensor: Tensor) -> Tensor:
        move = moves.get(id(tensor))
        return tensor if move is None else fresh(tensor, tensor.array + step * move)

    return replaced(sample, new)


@claim()
def recorded_gradient_equals_plain(operation: Operation, sample: Sample) -> None:
    """With create_graph the first-order gradient is the same number."""
    _, _, straight = gradients(operation, sample)
    _, _, recorded = gradients(operation, sample, create_graph=True)
    for k, (g, e) in enumerate(zip(recorded, straight, strict=True)):
        assert (g is None) == (e is None), f"gradient {k}: {g}, without create_graph {e}"
        if g is not None and e is not None:
            assert_close(g.array, e.array, 1e-12, f"gradient {k} with create_graph")


def second_order(operation: Operation, sample: Sample) -> tuple[list[Tensor], list[Any], list[Any]] | None:
    """The gradient of ⟨u, gradient⟩ for fixed u: the variables, u, and what backward of backward gives."""
    results, variables, first = gradients(operation, sample, create_graph=True)
    if not differentiable(results) or not all_finite(results):
        return None
    directions = weights_for([x.array for x in variables], seed=5)
    kept = [(g, u) for g, u in zip(first, directions, strict=True) if g is not None and current_node(g) is not None]
    if not kept:  # constant gradients, or a rule that loses its graph: the differences will tell
        return variables, directions, [None] * len(variables)
    tensors, weights = zip(*kept, strict=True)
    second = backward.gradients(tensors, [wrap(u) for u in weights], variables, False, False)
    return variables, directions, arrays_of(second)


@claim()
def second_order_equals_differences(operation: Operation, sample: Sample) -> None:
    """The derivative of the gradient equals differences of the gradient."""
    found = second_order(operation, sample)
    if found is None:
        return
    variables, directions, second = found

    def height(moved: Sample) -> float:
        _, _, first = gradients(operation, moved)
        return inner(arrays_of(first), directions)

    compare_slope(sample, variables, second, height, "second order")


@claim("torch")
def second_order_equals_torch(operation: Operation, sample: Sample) -> None:
    """Backward of backward is PyTorch's to 1e-9."""
    if not variables_in(sample):
        return
    theirs = run_torch(operation, sample)
    if theirs is None:
        return
    try:
        first = torch_gradients(*theirs, create_graph=True)
        expected = _second_of_torch(first, theirs[1])
    except (RuntimeError, NotImplementedError) as error:
        if "derivative" in str(error) or "not implemented" in str(error):
            return  # PyTorch has no second derivative here; differences have the word
        raise
    found = second_order(operation, sample)
    mine = [None] * len(expected) if found is None else found[2]
    for k, (g, e) in enumerate(zip(mine, expected, strict=True)):
        if g is None and e is None:
            continue
        ours = np.zeros(tuple(e.shape)) if g is None else g
        assert_close(ours, np.zeros(ours.shape) if e is None else plain(e), 1e-9, f"second order of input {k}")


def _second_of_torch(first: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    directions = weights_for([plain(x) for x in variables], seed=5)
    kept = [(g, u) for g, u in zip(first, directions, strict=True) if g is not None and g.requires_grad]
    if not kept:
        return [None] * len(variables)
    seeds = [torch().tensor(u).reshape(g.shape) for g, u in kept]
    return list(torch().autograd.grad([g for g, _ in kept], variables, seeds, allow_unused=True))


@claim("pellucid.func:jvp")
def forward_mode_is_the_adjoint(operation: Operation, sample: Sample) -> None:
    """⟨g, Jv⟩ = ⟨Jᵀg, v⟩: forward and backward mode are transposes of each other."""
    results, variables, found = gradients(operation, sample)
    outputs = differentiable(results)
    if not outputs or not variables or not all_finite(results):
        return
    directions = weights_for([x.array for x in variables], seed=13)
    chosen = [k for k, y in enumerate(results) if isinstance(y, Tensor) and current_node(y) is not None]
    tangents = push_forward(operation, sample, variables, directions, chosen)
    pushed = inner(weights_for([y.array for y in outputs]), tangents)
    pulled = inner(arrays_of(found), directions)
    scale = 1 + abs(pulled) + math.fsum(float(np.abs(reals(t)).sum()) for t in tangents if t is not None)
    assert abs(pushed - pulled) <= 1e-10 * scale, f"⟨g, Jv⟩ = {pushed:.12g}, ⟨Jᵀg, v⟩ = {pulled:.12g}"


def push_forward(
    operation: Operation,
    sample: Sample,
    variables: Sequence[Tensor],
    directions: Sequence[np.ndarray],
    chosen: list[int],
) -> list[Any]:
    """The tangents of the chosen results by forward mode."""
    from pellucid.func import jvp

    whole = as_function(operation, sample, variables)

    def function(*values: Tensor) -> tuple[Any, ...]:
        results = whole(*values)
        return tuple(results[k] for k in chosen)

    primals = tuple(wrap(x.array) for x in variables)
    _, tangents = jvp(function, primals, tuple(wrap(v) for v in directions))
    return arrays_of(tangents)
