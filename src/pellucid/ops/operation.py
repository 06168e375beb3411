"""publish: an operation gets its public name, its methods, its documentation and its sample inputs.

`OPERATIONS` is the list that the public namespace, the documentation index and the generated tests are made from.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import unwrap
from sys import _getframe
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import modes
from pellucid.core.flags import received, reception
from pellucid.core.inplace import computed_into, in_place
from pellucid.core.primitive import TABLE, Primitive, elementwise
from pellucid.core.provenance import here
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Leaf, Operators, Tensor, wrap
from pellucid.errors import explain

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
    shared: Function | None = None  # what all names of one operation have in common; `function` has this one's name


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
    out: str | None = None,
    tensors: int = 0,
    names: tuple[str, ...] | None = None,
) -> Function:
    """Give an operation its public names.

    `methods` defaults to the name itself in the main namespace and to none elsewhere; `inplace` adds `name_`.
    `aliases` are further names: a plain one in the same namespace (and a method, where there are methods), a dotted
    one in another namespace: `"torch.special.expit"`. `unclaimed` names claims (of testing/claims, and
    "node_name", "vmap", "reads_values") that the operation does not make, each with its reason. `writers` are in-place
    forms that are functions, not methods: `"torch.relu_"`. `out` says which dtypes `out=` may have (core/inplace's
    OUT_RULES): what works on each element converts its result, all else does not. The first `tensors` arguments of
    the public forms must be tensors, where PyTorch takes no number for one. `names` are what a row's arguments are
    called, where the row itself does not name them so. Returns the function, which takes numbers all the same: a
    definition reads `exp = publish(...)`.
    """
    name = name or function.__name__
    row = getattr(function, "primitive", None) or TABLE.get(name)
    function.out_rule = out or ("cast" if row is not None and row.elementwise else "exact")  # type: ignore[attr-defined]
    function.__doc__ = doc or function.__doc__
    methods = ((name,) if module == "torch" else ()) if methods is None else tuple(methods)
    near = [alias for alias in aliases if "." not in alias]
    taken = of_tensors(function, name, tensors) if tensors else function
    plain = module == "torch.nn.functional" and out is None  # PyTorch's take no out= there
    called = (without_out if plain else with_out)(taken, name)
    if names is not None or parameters(function) == UNNAMED:
        called = by_name(called, name, names or ("input", "other"))
    if name in IN_FLOAT32:
        called = in_float32_under_autocast(called)
    if called is not function or hasattr(function, "primitive"):  # pickle finds a function by these
        called.__module__, called.__qualname__ = module.replace("torch", "pellucid", 1), name
    for path in (f"{module}.{name}", *(alias if "." in alias else f"{module}.{alias}" for alias in aliases)):
        home, _, public = path.rpartition(".")
        OPERATIONS[path.removeprefix("torch.")] = Operation(
            public, named(called, public, home), function.__doc__ or "", samples, domain, home, bool(methods), inplace,
            reference, unclaimed or {}, home_of(_getframe(1)), called,
        )  # fmt: skip
    method_form = as_method(taken if tensors > 1 else function, name)  # a method's first argument is a tensor
    for method in (*methods, *(near if methods else ())):
        attach(method, named(method_form, method))
    if inplace:
        for public in (name, *near):
            attach(f"{public}_", in_place(method_form, f"{public}_"))
    for path in writers:
        WRITERS[path] = in_place(method_form, path.rpartition(".")[2])
    return function


def named(function: Function, name: str, module: str | None = None) -> Function:
    """The function under a name: itself if it has it, else a copy, for `torch.clip.__name__` is not "clamp".

    >>> import pellucid as torch
    >>> torch.clip.__name__, torch.clamp.__name__, torch.Tensor.absolute.__name__
    ('clip', 'clamp', 'absolute')
    """
    if function.__name__ == name or not isinstance(function, FunctionType):
        return function
    code, names, closure = function.__code__, function.__globals__, function.__closure__
    copy = FunctionType(code, names, name, function.__defaults__, closure)
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, function.__annotations__
    copy.__dict__.update(function.__dict__)
    copy.__doc__, copy.__qualname__ = function.__doc__, name  # pickle finds a function by its module and this
    copy.__module__ = function.__module__ if module is None else module.replace("torch", "pellucid", 1)
    return copy


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
    count, special, look = reception(function, name, numpy_names(function))

    @wraps(function)
    def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if len(args) > count or (kwargs and not special.isdisjoint(kwargs)):
            kwargs = look(args, kwargs)
        try:
            return function(*args, **kwargs) if out is None else computed_into(out, function, args, kwargs, name)
        except AttributeError as error:
            raise no_tensor(function, name, args, kwargs, error) from None

    return public


UNNAMED = ("out",)  # the parameters of a row whose inputs are taken by their positions alone


def by_name(function: Function, name: str, names: tuple[str, ...]) -> Function:
    """The public form of a row without names for its inputs: it takes them by name, too.

    >>> import pellucid as torch
    >>> torch.floor_divide(torch.tensor(7), other=2)
    tensor(3)
    """

    @wraps(function)
    def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if kwargs:
            given = {key if key in names else NUMPY_NAMES.get(key, key): value for key, value in kwargs.items()}
            left = names[len(args) :]
            if not given.keys() <= set(left):
                raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(given.keys() - set(left)))!r}")
            args = (*args, *(given[key] for key in left if key in given))
        return function(*args, out=out)

    return public


def without_out(function: Function, name: str) -> Function:
    """The public form of a function of neural networks: what is no tensor is refused by its name.

    >>> import pellucid as torch
    >>> try:
    ...     torch.nn.functional.glu([1.0])
    ... except TypeError as error:
    ...     print(str(error).splitlines()[0])
    glu(): argument 'input' (position 1) must be Tensor, not list
    """
    if hasattr(function, "primitive"):  # its careful way refuses
        return function
    count, special, look = reception(function, name, {})

    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        if len(args) > count or (kwargs and not special.isdisjoint(kwargs)):
            kwargs = look(args, kwargs)
        try:
            return function(*args, **kwargs) if kwargs else function(*args)  # without the dictionary it is faster
        except AttributeError as error:
            raise no_tensor(function, name, args, kwargs, error) from None

    return public


# What autocast computes in float32 on the CPU as a whole, as PyTorch does; amp/autocast_mode.py has the single rows.
IN_FLOAT32 = frozenset((
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cdist", "cosine_embedding_loss", "cross_entropy",
    "ctc_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "nanquantile", "nll_loss", "poisson_nll_loss", "quantile",
    "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
))  # fmt: skip


def in_float32_under_autocast(function: Function) -> Function:
    """The form of an operation that takes half precision as float32 while autocast is on.

    >>> import pellucid as torch
    >>> x = torch.ones(2, 3, dtype=torch.bfloat16)
    >>> with torch.autocast("cpu"):
    ...     torch.nn.functional.cross_entropy(x, torch.tensor([0, 1])).dtype
    torch.float32
    """

    @wraps(function)
    def wide(*args: Any, **kwargs: Any) -> Any:
        mode = modes.MODE.get()
        if mode is None or mode.autocast is None:
            return function(*args, **kwargs)
        with modes.switched(autocast=None):
            widened = {key: _widened(value) for key, value in kwargs.items()}
            return function(*map(_widened, args), **widened)

    return wide


def _widened(value: Any) -> Any:
    """A tensor of half precision in float32; all else as it is."""
    if isinstance(value, Tensor) and value.dtype in (dtypes.float16, dtypes.bfloat16):  # type: ignore[attr-defined]
        return value.to(dtypes.float32)  # type: ignore[attr-defined]
    return value


def of_tensors(function: Function, name: str, count: int) -> Function:
    """The form of an operation that refuses numbers for its first arguments, as PyTorch's does.

    >>> import pellucid as torch
    >>> try:
    ...     torch.maximum(torch.ones(2), 1)
    ... except TypeError as error:
    ...     print(str(error).splitlines()[0])
    maximum(): argument 'other' (position 2) must be Tensor, not int
    """
    names = ("input", "other")[:count] if parameters(function) == UNNAMED else parameters(function)[:count]

    @wraps(function)
    def taken(*args: Any, **kwargs: Any) -> Any:
        for i, value in enumerate(args[:count]):
            if not isinstance(value, Operators):
                raise not_a_tensor(name, value, names[i], i + 1)
        if not kwargs:
            return function(*args)
        for key, value in kwargs.items():
            if NUMPY_NAMES.get(key, key) in names and not isinstance(value, Operators):
                raise not_a_tensor(name, value, key)
        return function(*args, **kwargs)

    vars(taken).pop("primitive", None)  # with it, the in-place form would let NumPy take the numbers
    taken.with_numbers = function  # type: ignore[attr-defined]
    return taken


def not_a_tensor(name: str, value: Any, parameter: str, position: int | None = None) -> TypeError:
    """The refusal of an argument that should be a tensor."""
    place = f" (position {position})" if position else ""
    what = f"{name}(): argument '{parameter}'{place} must be Tensor, not {type(value).__name__}"
    return TypeError(explain(what, str(here()), try_=MAKE_ONE))


def must_be_tensors(name: str, **values: Any) -> None:
    """Refuse arguments that are no tensors."""
    for parameter, value in values.items():
        if not isinstance(value, Operators):
            raise not_a_tensor(name, value, parameter)


MAKE_ONE = "pass a tensor: torch.tensor(...) makes one of numbers and lists"


def no_tensor(function: Function, name: str, args: Any, kwargs: Any, error: AttributeError) -> Exception:
    """What to raise when an argument has not what a tensor has: a TypeError that names it; else the error itself."""
    code = unwrap(function).__code__
    count, names = code.co_argcount, code.co_varnames
    rest = args[count:]  # of a function that takes any number of tensors, one by one or in a list
    rest = rest[0] if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
    given = [*zip(names, args[:count], strict=False), ("the rest", rest), *kwargs.items()]
    for position, (parameter, value) in enumerate(given, 1):
        if value is error.obj:
            return not_a_tensor(name, value, parameter, position if position <= min(count, len(args)) else None)
        for i, part in enumerate(value if isinstance(value, (list, tuple)) else ()):
            if part is error.obj:
                kind = type(part).__name__
                what = f"expected Tensor as element {i} in argument {position - 1}, but got {kind}"
                return TypeError(explain(what, str(here()), try_=MAKE_ONE))
    return error


# NumPy's names of arguments, which PyTorch takes as well as its own; and those of the forms that PyTorch has apart
# for each type, such as a number of sections or the indices between them.
NUMPY_NAMES = {
    "axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other",
    "sections": "indices_or_sections", "indices": "indices_or_sections", "element": "elements",
    "test_element": "test_elements",
}  # fmt: skip
OF_METHODS = frozenset(("axis", "keepdims", "sections", "indices"))


def parameters(function: Function) -> tuple[str, ...]:
    """The names of a function's arguments."""
    code = unwrap(function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def numpy_names(function: Function) -> dict[str, str]:
    """Which of NumPy's names stand for an argument of this function, and for which.

    >>> numpy_names(lambda input, dim: None)
    {'axis': 'dim', 'x': 'input', 'a': 'input', 'x1': 'input'}
    """
    known = parameters(function)
    return {name: ours for name, ours in NUMPY_NAMES.items() if ours in known and name not in known}


def as_method(function: Function, name: str) -> Function:
    """The method of an operation: `x.sum(axis=1, keepdims=True)` does as with `dim` and `keepdim`.

    >>> import pellucid as torch
    >>> torch.ones(2, 3).sum(axis=1, keepdims=True).shape
    torch.Size([2, 1])
    """
    foreign = {key: ours for key, ours in numpy_names(function).items() if key in OF_METHODS}
    return received(function, name, foreign)


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


def pair_samples(draw: Draw) -> Iterable[Sample]:
    """Pairs of tensors: equal shapes, broadcasting both ways, 0-d, empty, layouts."""
    for first, second in BROADCASTS:
        yield call(draw(*first), draw(*second))
    base = draw(4, 6)
    yield call(_leaf(base.array.T), _leaf(draw(6, 4).array[::-1]))


def binary_samples(draw: Draw) -> Iterable[Sample]:
    """Pairs of tensors, and a tensor with a Python number."""
    yield from pair_samples(draw)
    yield call(draw(2, 3), 1.5)
    yield call(draw(3), 2)


def unary(name: str, forward: Function, rule: Function | None, *, doc: str, **options: Any) -> Function:
    """Define and publish a function of one tensor, elementwise."""
    return _elementwise(name, forward, (rule,), unary_samples, doc, options)


def binary(name: str, forward: Function, first: Any, second: Any, *, doc: str, **options: Any) -> Function:
    """Define and publish a function of two tensors, elementwise with broadcasting."""
    options.setdefault("hint", broadcast_hint)
    samples = pair_samples if options.get("tensors") == 2 else binary_samples
    return _elementwise(name, forward, (first, second), samples, doc, options)


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
