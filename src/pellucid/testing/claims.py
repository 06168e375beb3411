"""What every operation claims, checked from its own samples: values, gradients, second order, layouts, dtypes.

A claim is a function of an operation and one of its samples; it raises AssertionError when it does not hold.
`CLAIMS` is the list of them, and a row of a user's own is checked the same way:

    from pellucid.testing import claims
    claims.check(OPERATIONS["my_operation"])

Where PyTorch is installed it is the oracle for values and gradients; without it the claims that need it are left
out and the rest (finite differences, adjoints, layouts) still hold the operation to its word.
"""

import importlib
import importlib.util
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import pellucid
from pellucid import dtypes
from pellucid.core import backward, modes
from pellucid.core.tensor import PICK, Leaf, Tensor, wrap
from pellucid.core.views import current_node
from pellucid.errors import LinAlgError
from pellucid.ops import load_families
from pellucid.ops.operation import OPERATIONS, Draw, Operation, Sample
from pellucid.transforms.differences import from_reals, reals

HAS_TORCH = importlib.util.find_spec("torch") is not None
Claim = Callable[[Operation, Sample], None]
CLAIMS: dict[str, Claim] = {}
NEEDS: dict[str, str] = {}  # claim -> the dotted name without which it cannot be checked


def claim(needs: str = "") -> Callable[[Claim], Claim]:
    """Put a claim into the list under its own name."""

    def enlist(function: Claim) -> Claim:
        name = function.__name__
        CLAIMS[name] = function
        if needs:
            NEEDS[name] = needs
        return function

    return enlist


def can_check(name: str) -> bool:
    """Whether what a claim needs is installed."""
    module, _, attribute = NEEDS.get(name, "").partition(":")
    if not module:
        return True
    if importlib.util.find_spec(module) is None:
        return False
    return not attribute or hasattr(importlib.import_module(module), attribute)


def check(operation: Operation, names: Sequence[str] | None = None) -> None:
    """Hold an operation to all its claims (or to those named), on all its samples.

    >>> from pellucid.ops.operation import OPERATIONS
    >>> check(OPERATIONS["exp"])
    """
    for name in CLAIMS if names is None else names:
        if can_check(name):
            check_claim(operation, name)


# A capture takes 30 ms, whatever it captures: so many of an operation's samples are enough for it.
ENOUGH = {"capture_replays": 5}


def check_claim(operation: Operation, name: str) -> None:
    """Hold an operation to one claim; all failing samples are told at once."""
    failures = []
    enough = None if "reads_values" in operation.unclaimed else ENOUGH.get(name)
    samples = samples_of(operation)[:enough]
    for number, sample in enumerate(samples):
        try:
            CLAIMS[name](operation, sample)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            failures.append(f"sample {number}: {operation.name}({describe(sample)})\n    {text}")
    if failures:
        told = "\n".join(failures[:5])
        raise AssertionError(f"{operation.name}: {name} fails on {len(failures)} of {len(samples)} samples\n{told}")


def samples_of(operation: Operation) -> list[Sample]:
    """The operation's samples, the same ones every time."""
    draw = Draw(zlib.crc32(operation.name.encode()) % 1000, operation.domain)
    return list(operation.samples(draw))


def distinct_operations() -> dict[str, Operation]:
    """Every operation once, under its first name: an alias is the same function and needs no test of its own."""
    load_families()
    seen: set[int] = set()
    result = {}
    for name, operation in OPERATIONS.items():
        if id(operation.function) not in seen:
            seen.add(id(operation.function))
            result[name] = operation
    return result


# --- samples: arguments as trees


def mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """The same tree of lists, tuples and dictionaries with every leaf replaced."""
    if isinstance(tree, dict):
        return {key: mapped(value, function) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(mapped(value, function) for value in tree)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree in order; a namedtuple counts as a tuple."""
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves(value)]
    if isinstance(tree, (list, tuple)) and not isinstance(tree, dtypes.Size):
        return [leaf for value in tree for leaf in leaves(value)]
    return [tree]


def describe(sample: Sample) -> str:
    """A sample as one reads a call."""
    parts = [_shown(value) for value in sample.args]
    parts += [f"{key}={_shown(value)}" for key, value in sample.kwargs.items()]
    return ", ".join(parts)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{dtypes.from_numpy_dtype(value.array.dtype)}{list(value.array.shape)}".removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_shown(v) for v in value)}]"
    return repr(value)


def replaced(sample: Sample, function: Callable[[Tensor], Tensor]) -> Sample:
    """The sample with every tensor replaced; one that occurs twice is replaced by one new tensor."""
    known: dict[int, Tensor] = {}

    def new(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) not in known:
            known[id(value)] = function(value)
        return known[id(value)]

    return Sample(mapped(sample.args, new), mapped(sample.kwargs, new))


def fresh(tensor: Tensor, array: np.ndarray | None = None) -> Tensor:
    """A leaf with other values (or a copy of its own) that requires grad if the original does."""
    out = wrap(np.array(tensor.array, order="K") if array is None else np.asarray(array))
    return out.requires_grad_() if current_node(tensor) is not None else out  # type: ignore[attr-defined]


def tensors_in(sample: Sample) -> list[Tensor]:
    """Every tensor of a sample, each once."""
    found = [value for value in leaves((sample.args, sample.kwargs)) if isinstance(value, Tensor)]
    return list({id(value): value for value in found}.values())


def variables_in(sample: Sample) -> list[Tensor]:
    """The tensors of a sample that require grad."""
    return [tensor for tensor in tensors_in(sample) if current_node(tensor) is not None]


def run(operation: Operation, sample: Sample) -> list[Any]:
    """Call the operation with its random numbers seeded; the results as a flat list."""
    seed = getattr(pellucid, "manual_seed", None)
    if seed is not None:
        seed(0)
    return leaves(operation.function(*sample.args, **sample.kwargs))


def differentiable(results: Sequence[Any]) -> list[Tensor]:
    """The results that carry a graph."""
    return [y for y in results if isinstance(y, Tensor) and current_node(y) is not None]


def all_finite(results: Sequence[Any]) -> bool:
    """Whether there is a derivative to speak of: the mean of nothing is NaN and has none."""
    return all(np.all(np.isfinite(reals(y.array))) for y in differentiable(results))


def weights_for(arrays: Sequence[np.ndarray], seed: int = 7) -> list[np.ndarray]:
    """Fixed random numbers, one array like each given one: gradients of results, or directions to move in."""
    random = np.random.default_rng(seed)
    return [
        from_reals(random.uniform(0.5, 1.5, reals(a).size) * random.choice([-1, 1], reals(a).size), a) for a in arrays
    ]


def gradients(
    operation: Operation, sample: Sample, create_graph: bool = False
) -> tuple[list[Any], list[Tensor], list[Tensor | None]]:
    """Run the operation and pull fixed weights back: the results, the variables, their gradients."""
    results, variables = run(operation, sample), variables_in(sample)
    outputs = differentiable(results)
    if not outputs or not variables:
        return results, variables, [None] * len(variables)
    seeds = [wrap(weight) for weight in weights_for([y.array for y in outputs])]
    return results, variables, backward.gradients(outputs, seeds, variables, create_graph, create_graph)


def inner(a: Sequence[Any], b: Sequence[Any]) -> float:
    """The real inner product of two lists of arrays; None counts as zero."""
    return math.fsum(float(reals(x) @ reals(y)) for x, y in zip(a, b, strict=True) if x is not None and y is not None)


def arrays_of(tensors: Sequence[Any]) -> list[Any]:
    """The arrays of tensors, None where there is none."""
    return [None if tensor is None else tensor.array for tensor in tensors]


# --- comparing


def assert_close(ours: Any, theirs: Any, rtol: float, what: str, atol: float | None = None) -> None:
    """Two arrays have equal shape and nearly equal values; NaN equals NaN."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, expected {theirs.shape}"
    if ours.dtype.kind in "biu" or theirs.dtype.kind in "biu":
        assert np.array_equal(ours, theirs), f"{what}: {ours!r}, expected {theirs!r}"
        return
    a, b = reals(ours), reals(theirs)
    finite = np.abs(b[np.isfinite(b)])
    atol = rtol * (1.0 + float(finite.max(initial=0.0))) if atol is None else atol
    if not np.allclose(a, b, rtol, atol, equal_nan=True):
        with np.errstate(all="ignore"):
            worst = float(np.nanmax(np.abs(a - b)))
        raise AssertionError(f"{what}: off by {worst:.3g}: {short(ours)}, expected {short(theirs)}")


def short(array: Any) -> str:
    """An array on one line."""
    return np.array2string(np.asarray(array), precision=5, threshold=8, edgeitems=3).replace("\n", "")


def assert_slope(analytic: float, numeric: float, scale: float, what: str) -> None:
    """A directional derivative and its difference quotient agree to the tolerance of trust.md's T1."""
    bound = 1e-6 + 1e-5 * scale  # NaN is never within it
    assert abs(analytic - numeric) <= bound, f"{what}: {analytic:.10g}, by differences {numeric:.10g}"


# --- the oracle


def torch() -> Any:
    import torch as oracle

    return oracle


def torch_function(operation: Operation) -> Callable[..., Any] | None:
    """PyTorch's function of the same meaning: by reference, else by module and name, else the method."""
    if operation.reference == "":
        return None
    path = operation.reference or operation.name
    if not path.startswith("torch"):
        path = f"{operation.module}.{path}"
    found: Any = torch()
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
        if found is None:
            return getattr(torch().Tensor, path.split(".")[-1], None)
    return found  # type: ignore[no-any-return]


def in_torch(sample: Sample) -> tuple[Sample, list[Any]]:
    """The sample with PyTorch's tensors and dtypes, and the variables among them."""
    known: dict[int, Any] = {}

    def new(value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in known:
                known[id(value)] = _torch_tensor(value)
            return known[id(value)]
        if isinstance(value, dtypes.dtype):
            return getattr(torch(), str(value).removeprefix("torch."))
        if isinstance(value, np.ndarray):
            return torch().from_numpy(value.copy())
        return value

    converted = Sample(mapped(sample.args, new), mapped(sample.kwargs, new))
    return converted, [known[id(tensor)] for tensor in variables_in(sample)]


def _torch_tensor(tensor: Tensor) -> Any:
    array = tensor.array
    if array.dtype == dtypes.bfloat16.numpy:
        made = torch().from_numpy(array.astype(np.float32)).to(torch().bfloat16)
    else:
        made = torch().from_numpy(np.array(array, order="C"))
    return made.requires_grad_() if current_node(tensor) is not None else made


def run_torch(operation: Operation, sample: Sample) -> tuple[list[Any], list[Any]] | None:
    """PyTorch's results and its variables; None when PyTorch has no such function."""
    function = torch_function(operation)
    if function is None:
        return None
    converted, variables = in_torch(sample)
    torch().manual_seed(0)
    return leaves_of_torch(function(*converted.args, **converted.kwargs)), variables


def leaves_of_torch(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)) and not isinstance(result, torch().Size):
        return [leaf for value in result for leaf in leaves_of_torch(value)]
    return [result]


def torch_gradients(results: Sequence[Any], variables: Sequence[Any], create_graph: bool = False) -> list[Any]:
    """What PyTorch's backward gives for the same weights."""
    outputs = [y for y in results if isinstance(y, torch().Tensor) and y.requires_grad]
    if not outputs or not variables:
        return [None] * len(variables)
    weights = weights_for([plain(y) for y in outputs])
    seeds = [torch().tensor(weight).reshape(y.shape) for weight, y in zip(weights, outputs, strict=True)]
    return list(
        torch().autograd.grad(
            outputs, variables, seeds, create_graph=create_graph, retain_graph=True, allow_unused=True
        )
    )


def plain(value: Any) -> np.ndarray:
    """PyTorch's tensor as a NumPy array."""
    value = value.detach()
    return value.float().numpy() if value.dtype == torch().bfloat16 else value.numpy(force=True)


def dtype_name(value: Any) -> str:
    """The dtype of a tensor of either library."""
    return str(value.dtype)


# --- the claims


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

    def function(*values: Tensor) -> tuple[Any, ...]:
        given = {id(x): value for x, value in zip(variables, values, strict=True)}
        results = run(operation, replaced(sample, lambda tensor: given.get(id(tensor), tensor)))
        return tuple(results[k] for k in chosen)

    primals = tuple(wrap(x.array) for x in variables)
    _, tangents = jvp(function, primals, tuple(wrap(v) for v in directions))
    return arrays_of(tangents)


@claim("pellucid:capture")
def capture_replays(operation: Operation, sample: Sample) -> None:
    """A captured call replays bit for bit on the same inputs, and agrees on others."""
    tensors = tensors_in(sample)

    def function(*values: Tensor) -> tuple[Any, ...]:
        given = {id(x): value for x, value in zip(tensors, values, strict=True)}
        results = run(operation, replaced(sample, lambda tensor: given[id(tensor)]))
        return tuple(y for y in results if isinstance(y, Tensor))

    copies = [wrap(np.array(x.array, order="K")) for x in tensors]
    expected = function(*copies)
    if not expected:
        return
    program = pellucid.capture(function, *copies)
    for k, (y, e) in enumerate(zip(leaves(program(*copies)), expected, strict=True)):
        assert y.array.dtype == e.array.dtype, f"result {k}: {y.array.dtype}, expected {e.array.dtype}"
        assert np.array_equal(y.array, e.array, equal_nan=e.array.dtype.kind in "fc"), f"result {k} differs on replay"


SINGLE = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}


def in_single_precision(sample: Sample) -> Sample:
    """The sample in float32 and complex64."""

    def new(tensor: Tensor) -> Tensor:
        narrow = SINGLE.get(np.dtype(tensor.array.dtype))
        return tensor if narrow is None else fresh(tensor, tensor.array.astype(narrow))

    return replaced(sample, new)


@claim()
def single_precision_is_kept(operation: Operation, sample: Sample) -> None:
    """float32 in, float32 out and float32 gradients, near the float64 ones (and PyTorch's dtype)."""
    wide, _, wide_gradients = gradients(operation, sample)
    narrow_sample = in_single_precision(sample)
    narrow, variables, found = gradients(operation, narrow_sample)
    theirs = run_torch(operation, narrow_sample) if HAS_TORCH else None
    for k, (y, e) in enumerate(zip(narrow, wide, strict=True)):
        if not isinstance(y, Tensor):
            continue
        if theirs is not None:
            assert dtype_name(y) == dtype_name(theirs[0][k]), f"result {k} in float32 gives {y.dtype}"  # type: ignore[attr-defined]
        elif not any(isinstance(value, dtypes.dtype) for value in leaves((sample.args, sample.kwargs))):
            wanted = SINGLE.get(np.dtype(e.array.dtype), e.array.dtype)
            assert y.array.dtype == wanted or not variables, f"result {k} in float32 gives {y.array.dtype}"
        if e.array.dtype.kind in "fc":
            assert_close(y.array, e.array, 1e-4, f"result {k} in float32", atol=1e-4 * (1 + _largest(e.array)))
    for k, (g, wide_g, x) in enumerate(zip(found, wide_gradients, variables, strict=True)):
        if g is not None:
            assert g.array.dtype == x.array.dtype, f"gradient {k} of {x.array.dtype} is {g.array.dtype}"
        if g is not None and wide_g is not None:
            assert_close(
                g.array, wide_g.array, 1e-3, f"gradient {k} in float32", atol=1e-3 * (1 + _largest(wide_g.array))
            )


def _largest(array: np.ndarray) -> float:
    values = np.abs(reals(array))
    return float(values[np.isfinite(values)].max(initial=0.0))


# --- layouts


def fortran(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="F")


def strided(array: np.ndarray) -> np.ndarray:
    """The same values, with a gap after each element of the last dimension."""
    if not array.ndim:
        return np.stack([array, array])[1, ...]
    return np.repeat(array, 2, axis=-1)[..., ::2]


def reversed_memory(array: np.ndarray) -> np.ndarray:
    """The same values, stored backwards and read with negative strides."""
    index = (slice(None, None, -1),) * array.ndim
    return np.ascontiguousarray(array[index]).reshape(array.shape)[index]


def expanded(array: np.ndarray) -> np.ndarray:
    """The first slice of an array repeated with stride zero: other values, the same shape."""
    return np.broadcast_to(array[:1], array.shape) if array.ndim and array.shape[0] else array


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def laid_out(layout: Callable[[np.ndarray], np.ndarray], tensor: Tensor) -> Tensor:
    """A tensor's values in another layout."""
    return fresh(tensor, layout(tensor.array))


LAYOUTS = (fortran, strided, reversed_memory, expanded, read_only)


@claim()
def layout_does_not_matter(operation: Operation, sample: Sample) -> None:
    """Other strides, the same result; and no input is written to."""
    for layout in LAYOUTS:
        odd = replaced(sample, partial(laid_out, layout))
        plain_sample = replaced(odd, lambda tensor: fresh(tensor, np.array(tensor.array, order="C")))
        try:
            expected, _, expected_gradients = gradients(operation, plain_sample)
        except LinAlgError:  # a matrix of equal rows has no inverse
            continue
        before = [reals(tensor.array).tobytes() for tensor in tensors_in(odd)]
        results, _, found = gradients(operation, odd)
        after = [reals(tensor.array).tobytes() for tensor in tensors_in(odd)]
        assert before == after, f"an input with layout {layout.__name__} was written to"
        for k, (y, e) in enumerate(zip(results, expected, strict=True)):
            if isinstance(e, Tensor):
                assert_close(y.array, e.array, 1e-12, f"result {k} with layout {layout.__name__}")
        for k, (g, e) in enumerate(zip(found, expected_gradients, strict=True)):
            if g is not None and e is not None:
                assert_close(g.array, e.array, 1e-12, f"gradient {k} with layout {layout.__name__}")


# --- the other spellings


@claim()
def in_place_form_agrees(operation: Operation, sample: Sample) -> None:
    """`x.name_(...)` writes what `name(x, ...)` returns, returns x, and has the same gradient."""
    target = sample.args[0] if sample.args else None
    if not operation.inplace or not isinstance(target, Tensor):
        return
    (expected, *_), _, expected_gradients = gradients(operation, sample)
    if not isinstance(expected, Tensor) or not _fits(expected, target):
        return
    again = replaced(sample, fresh)
    copy = again.args[0] * 1 if current_node(again.args[0]) is not None else again.args[0]
    method = getattr(copy, f"{operation.name}_")
    seed = getattr(pellucid, "manual_seed", None)
    if seed is not None:
        seed(0)
    result = method(*again.args[1:], **again.kwargs)
    assert result is copy, f"{operation.name}_ does not return its tensor"
    assert_close(result.array, expected.array.astype(target.array.dtype), 1e-12, f"{operation.name}_")
    if current_node(result) is not None and current_node(expected) is not None:
        seeds = [wrap(weight) for weight in weights_for([expected.array])]
        found = backward.gradients([result], seeds, variables_in(again), False, False)
        for k, (g, e) in enumerate(zip(found, expected_gradients, strict=True)):
            if e is not None and g is not None:
                assert_close(g.array, e.array, 1e-12, f"gradient {k} of {operation.name}_")


def _fits(result: Tensor, target: Tensor) -> bool:
    source, goal = (dtypes.from_numpy_dtype(t.array.dtype) for t in (result, target))
    return result.array.shape == target.array.shape and dtypes.can_cast(source, goal)


@claim()
def method_agrees(operation: Operation, sample: Sample) -> None:
    """`x.name(...)` is `name(x, ...)`."""
    target = sample.args[0] if sample.args else None
    method = getattr(target, operation.name, None) if isinstance(target, Tensor) and operation.method else None
    if method is None:
        return
    expected = run(operation, sample)
    seed = getattr(pellucid, "manual_seed", None)
    if seed is not None:
        seed(0)
    for y, e in zip(leaves(method(*sample.args[1:], **sample.kwargs)), expected, strict=True):
        if isinstance(e, Tensor):
            assert np.array_equal(y.array, e.array, equal_nan=e.array.dtype.kind in "fc"), f"x.{operation.name} differs"


@claim()
def out_form_agrees(operation: Operation, sample: Sample) -> None:
    """`name(..., out=tensor)` writes what `name(...)` returns and returns the tensor."""
    if operation.module == "torch.nn.functional":
        return  # PyTorch's take no out= there
    with modes.no_grad():
        pellucid.manual_seed(0)
        result = operation.function(*sample.args, **sample.kwargs)
        expected = leaves(result)
        if not expected or not all(isinstance(y, Tensor) for y in expected):
            return
        outs = [wrap(np.empty_like(y.array, shape=(0,))) for y in expected]
        given = outs[0] if isinstance(result, Tensor) else tuple(outs)
        pellucid.manual_seed(0)
        returned = leaves(operation.function(*sample.args, **sample.kwargs, out=given))
    for k, (y, e, back) in enumerate(zip(outs, expected, returned, strict=True)):
        assert back is y, f"result {k} is not the tensor that was given"
        assert y.array.tobytes() == np.ascontiguousarray(e.array).tobytes(), f"result {k} differs with out="


@claim("pellucid.func:vmap")
def batching_is_a_loop(operation: Operation, sample: Sample) -> None:
    """vmap over a stack of inputs is the stack of the results."""
    from pellucid.func import vmap

    variables = variables_in(sample)
    if not variables:
        return
    stacks = [wrap(np.stack([x.array, x.array * 0.75 + 0.125 * _middle(operation)])) for x in variables]

    def function(*values: Tensor) -> tuple[Tensor, ...]:
        given = {id(x): value for x, value in zip(variables, values, strict=True)}
        results = run(operation, replaced(sample, lambda tensor: given.get(id(tensor), tensor)))
        return tuple(y for y in results if isinstance(y, Tensor))

    slices = [function(*(wrap(np.array(stack.array[i])) for stack in stacks)) for i in range(2)]
    if not slices[0] or any(a.array.shape != b.array.shape for a, b in zip(*slices, strict=True)):
        return  # a shape that depends on values cannot be batched
    together = vmap(function, randomness="same")(*stacks)  # each run starts from one seed
    for k, (whole, *parts) in enumerate(zip(together, *slices, strict=True)):
        expected = np.stack([part.array for part in parts])
        assert whole.array.dtype == expected.dtype, (
            f"batched result {k}: {whole.array.dtype}, expected {expected.dtype}"
        )
        assert_close(whole.array, expected, 1e-12, f"batched result {k}")


def _middle(operation: Operation) -> float:
    return (operation.domain[0] + operation.domain[1]) * 1.0


# --- names of nodes


def node_name(operation: Operation) -> tuple[str, str] | None:
    """Our name and PyTorch's for the node of the first sample that has one."""
    for sample in samples_of(operation):
        if not variables_in(sample):
            continue
        theirs = run_torch(operation, sample)
        outputs = differentiable(run(operation, sample))
        if theirs is None or not outputs:
            return None
        expected = next((y for y in theirs[0] if getattr(y, "grad_fn", None) is not None), None)
        node = current_node(outputs[0])
        if expected is None or node is None or isinstance(node, Leaf):
            return None
        return (node.inputs[0] if node.primitive is PICK else node).name(), type(expected.grad_fn).__name__  # type: ignore[union-attr]
    return None


# --- who is exercised


@dataclass
class Seen:
    """An observer that remembers which primitives ran."""

    forward: set[str]

    def operation(self, p: Any, tensors: Any, params: Any, outs: Any) -> None:
        self.forward.add(p.name)

    def write(self, target: Any, name: str) -> None:
        pass


@contextmanager
def watched() -> Iterator[Seen]:
    """Remember every primitive that runs in a block."""
    seen = Seen(set())
    with modes.switched(observers=(*modes.current().observers, seen)):
        yield seen
