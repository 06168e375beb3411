"""publish: an operation gets its public name, its methods, its documentation and its sample inputs.

`OPERATIONS` is the list that the public namespace, the documentation index and the generated tests are made from.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from sys import _getframe
from types import FrameType
from typing import Any

import numpy as np

from pellucid.core.inplace import computed_into, in_place
from pellucid.core.primitive import Primitive, elementwise
from pellucid.core.provenance import here
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Leaf, Tensor, wrap

Function = Callable[..., Any]


@dataclass(frozen=True)
class Sample:
    """One call for the generated tests: `operation(*args, **kwargs)`."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


def call(*args: Any, **kwargs: Any) -> Sample:
    """Write down a sample call.

    >>> call(1, dim=2)
    Sample(args=(1,), kwargs={'dim': 2})
    """
    return Sample(args, kwargs)


class Draw:
    """Draws sample inputs: float64 tensors that require grad, masks and indices, the same ones for every seed."""

    def __init__(self, seed: int = 0, domain: tuple[float, float] = (-2.0, 2.0)) -> None:
        self.random = np.random.default_rng(seed)
        self.domain = domain

    def __call__(self, *shape: int, low: float | None = None, high: float | None = None) -> Tensor:
        """A tensor of distinct values, away from each other, within the operation's domain."""
        low = self.domain[0] if low is None else low
        high = self.domain[1] if high is None else high
        size = int(np.prod(shape, dtype=np.int64))
        places = self.random.permutation(size) + self.random.uniform(0.2, 0.8, size)
        return _leaf((low + (high - low) * places / max(size, 1)).reshape(shape))

    def complex(self, *shape: int) -> Tensor:
        """A complex128 tensor."""
        return _leaf(self.random.uniform(-1.5, 1.5, shape) + 1j * self.random.uniform(-1.5, 1.5, shape))

    def integers(self, *shape: int, low: int = 0, high: int = 3) -> Tensor:
        """An int64 tensor with values in [low, high)."""
        return wrap(self.random.integers(low, high, shape, dtype=np.int64))

    def mask(self, *shape: int) -> Tensor:
        """A bool tensor."""
        return wrap(np.asarray(self.random.random(shape) < 0.5))


def _leaf(array: np.ndarray) -> Tensor:
    tensor = wrap(np.asarray(array))
    tensor.node = Leaf(tensor, here())
    return tensor


@dataclass(frozen=True)
class Operation:
    """A public operation: what users call, and what its tests draw."""

    name: str
    function: Function
    doc: str
    samples: Callable[[Draw], Iterable[Sample]]
    domain: tuple[float, float] = (-2.0, 2.0)
    module: str = "torch"  # where PyTorch keeps it: torch, torch.special, torch.nn.functional, ...
    method: bool = True
    inplace: bool = False
    reference: str | None = None  # its name in PyTorch if that differs from `module.name`; "" when it has none
    unclaimed: Mapping[str, str] = field(default_factory=dict)  # claims of the tests that it does not make, and why
    home: str = ""  # the module that publishes it


# By the path within torch: "exp", "linalg.multi_dot", "nn.functional.silu".
OPERATIONS: dict[str, Operation] = {}
WRITERS: dict[str, Function] = {}  # in-place forms that are functions: "torch.relu_", "torch.nn.functional.elu_"

# Reasons that several operations share for leaving a claim unmade.
COMPOSED = {"node_name": "composed of other operations, or fused, in another way than PyTorch's"}
READS_VALUES = {"reads_values": "its result's shape, or a check of an argument, depends on values"}
LAYOUT_DECIDES = {"layout_does_not_matter": "a view looks at memory: its layout decides whether there is one"}


def publish(
    function: Function,
    *,
    samples: Callable[[Draw], Iterable[Sample]],
    name: str | None = None,
    doc: str | None = None,
    methods: Iterable[str] | None = None,
    aliases: Iterable[str] = (),
    inplace: bool = False,
    domain: tuple[float, float] = (-2.0, 2.0),
    module: str = "torch",
    reference: str | None = None,
    unclaimed: Mapping[str, str] | None = None,
    writers: Iterable[str] = (),
) -> Function:
    """Give an operation its public names.

    `methods` defaults to the name itself in the main namespace and to none elsewhere; `inplace` adds `name_`.
    `aliases` are further names: a plain one in the same namespace (and a method, where there are methods), a dotted
    one in another namespace: `"torch.special.expit"`. `unclaimed` names claims (of testing/claims, and
    "node_name", "vmap", "reads_values") that the operation does not make, each with its reason. `writers` are in-place
    forms that are functions, not methods: `"torch.relu_"`. Returns the function: a definition reads
    `exp = publish(...)`.
    """
    name = name or function.__name__
    function.__doc__ = doc or function.__doc__
    methods = ((name,) if module == "torch" else ()) if methods is None else tuple(methods)
    near = [alias for alias in aliases if "." not in alias]
    called = function if module == "torch.nn.functional" else with_out(function, name)
    if called is not function or hasattr(function, "primitive"):  # pickle finds a function by these
        called.__module__, called.__qualname__ = module.replace("torch", "pellucid", 1), name
    for path in (f"{module}.{name}", *(alias if "." in alias else f"{module}.{alias}" for alias in aliases)):
        home, _, public = path.rpartition(".")
        OPERATIONS[path.removeprefix("torch.")] = Operation(
            public, called, function.__doc__ or "", samples, domain, home, bool(methods), inplace, reference,
            unclaimed or {}, home_of(_getframe(1)),
        )  # fmt: skip
    method_form = with_numpy_names(function)
    for method in (*methods, *(near if methods else ())):
        attach(method, method_form)
    if inplace:
        for public in (name, *near):
            attach(f"{public}_", in_place(method_form, f"{public}_"))
    for path in writers:
        WRITERS[path] = in_place(function, path.rpartition(".")[2])
    return function


def home_of(frame: FrameType | None) -> str:
    """The name of the first module outside this one that a call came from."""
    while frame is not None and frame.f_globals["__name__"] == __name__:
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals["__name__"])


def with_out(function: Function, name: str) -> Function:
    """The public form of an operation: it takes `out=`, as PyTorch's does; its method does not.

    >>> import pellucid as torch
    >>> result = torch.empty(3)
    >>> torch.cumsum(torch.ones(3), 0, out=result) is result
    True
    """

    if "out" in parameters(function):
        return function
    foreign = numpy_names(function)

    @wraps(function)
    def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if kwargs and not foreign.isdisjoint(kwargs):
            kwargs = {NUMPY_NAMES.get(key, key): value for key, value in kwargs.items()}
        try:
            return function(*args, **kwargs) if out is None else computed_into(out, function, args, kwargs, name)
        except AttributeError as error:
            raise no_tensor(function, name, args, kwargs, error) from None

    return public


def no_tensor(function: Function, name: str, args: Any, kwargs: Any, error: AttributeError) -> Exception:
    """What to raise when an argument has not what a tensor has: a TypeError that names it; else the error itself."""
    count, kind = function.__code__.co_argcount, type(error.obj).__name__
    rest = ("the rest", args[count:])  # of a function that takes any number of tensors
    given = [*zip(parameters(function), args[:count], strict=False), rest, *kwargs.items()]
    for position, (parameter, value) in enumerate(given, 1):
        if value is error.obj:
            place = f" (position {position})" if position <= min(count, len(args)) else ""
            what = f"{name}(): argument '{parameter}'{place} must be Tensor, not {kind}"
            return TypeError(f"{what}\n  where: {here()}")
        for i, part in enumerate(value if isinstance(value, (list, tuple)) else ()):
            if part is error.obj:
                what = f"expected Tensor as element {i} in argument {position - 1}, but got {kind}"
                return TypeError(f"{what}\n  where: {here()}")
    return error


# NumPy's names of arguments, which PyTorch takes as well as its own.
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}


def parameters(function: Function) -> tuple[str, ...]:
    """The names of a function's arguments."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def numpy_names(function: Function) -> frozenset[str]:
    """Which of NumPy's names stand for an argument of this function.

    >>> sorted(numpy_names(lambda input, dim: None))
    ['a', 'axis', 'x', 'x1']
    """
    known = parameters(function)
    return frozenset(name for name, ours in NUMPY_NAMES.items() if ours in known and name not in known)


def with_numpy_names(function: Function) -> Function:
    """The method of an operation along dimensions: `x.sum(axis=1, keepdims=True)` does as with `dim` and `keepdim`.

    >>> import pellucid as torch
    >>> torch.ones(2, 3).sum(axis=1, keepdims=True).shape
    torch.Size([2, 1])
    """
    foreign = numpy_names(function) & {"axis", "keepdims"}
    if not foreign:
        return function

    @wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not foreign.isdisjoint(kwargs):
            kwargs = {NUMPY_NAMES.get(key, key): value for key, value in kwargs.items()}
        return function(*args, **kwargs)

    return method


def namespace(module: str) -> dict[str, Function]:
    """The public functions of one namespace by name.

    >>> "silu" in namespace("torch.nn.functional")
    True
    """
    found = {operation.name: operation.function for operation in OPERATIONS.values() if operation.module == module}
    for path, function in WRITERS.items():
        home, _, name = path.rpartition(".")
        if home == module:
            found[name] = function
    return found


def operation(**options: Any) -> Callable[[Function], Function]:
    """Publish a plain function of other operations: a decorator form of `publish`."""
    return lambda function: publish(function, **options)


# --- families of elementwise operations, with the samples every one of them gets


def unary_samples(draw: Draw) -> Iterable[Sample]:
    """0-d, 1-d, 2-d, empty, and layouts: transposed, reversed, strided, broadcast."""
    for shape in [(), (1,), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)]:
        yield call(draw(*shape))
    base = draw(4, 6)
    for view in (base.array.T, base.array[::-1], base.array[:, ::2], np.broadcast_to(base.array[0], (3, 6))):
        yield call(_leaf(view))


# Pairs of shapes: equal, broadcasting both ways, 0-d, empty.
BROADCASTS = [
    ((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((2, 3), ()),
    ((), (2, 3)), ((0,), (1,)), ((2, 0), (2, 0)), ((4, 1, 2), (3, 1)),
]  # fmt: skip


def binary_samples(draw: Draw) -> Iterable[Sample]:
    """Equal shapes, broadcasting both ways, 0-d, empty, Python numbers, layouts."""
    for first, second in BROADCASTS:
        yield call(draw(*first), draw(*second))
    yield call(draw(2, 3), 1.5)
    yield call(draw(3), 2)
    base = draw(4, 6)
    yield call(_leaf(base.array.T), _leaf(draw(6, 4).array[::-1]))


def unary(name: str, forward: Function, rule: Function | None, *, doc: str, **options: Any) -> Function:
    """Define and publish a function of one tensor, elementwise."""
    return _elementwise(name, forward, (rule,), unary_samples, doc, options)


def binary(name: str, forward: Function, first: Any, second: Any, *, doc: str, **options: Any) -> Function:
    """Define and publish a function of two tensors, elementwise with broadcasting."""
    options.setdefault("hint", broadcast_hint)
    return _elementwise(name, forward, (first, second), binary_samples, doc, options)


COLUMNS = ("lower", "batch", "dtypes", "grad_name", "hint", "jvp", "large", "gather")


def _elementwise(name: str, forward: Function, rules: Any, samples: Any, doc: str, options: dict[str, Any]) -> Function:
    columns = {key: options.pop(key) for key in COLUMNS if key in options}
    operators = options.pop("operators", ())
    row: Primitive = elementwise(name, forward, *rules, **columns)
    function = bind(row, *operators)
    options.setdefault("samples", samples)
    options.setdefault("inplace", True)
    return publish(function, name=name, doc=doc, **options)


def broadcast_hint(shapes: list[tuple[int, ...]], params: tuple[Any, ...]) -> tuple[str | None, str | None]:
    """Why two shapes do not broadcast: the axis where they differ.

    >>> broadcast_hint([(2, 3), (2, 4)], ())[0]
    'The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1'
    """
    first, second = shapes[0], shapes[1]
    rank = max(len(first), len(second))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (first, second)]
    for axis in reversed(range(rank)):
        n, m = padded[0][axis], padded[1][axis]
        if n != m and 1 not in (n, m):
            why = f"The size of tensor a ({n}) must match the size of tensor b ({m}) at non-singleton dimension {axis}"
            return why, "unsqueeze, transpose or expand one of them so that the sizes match or are 1"
    return None, None
