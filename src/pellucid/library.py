"""torch.library: operations of one's own. Here they are plain functions, with a derivative if one is registered.

>>> import pellucid as torch
>>> @torch.library.custom_op("mine::twice", mutates_args=())
... def twice(x: torch.Tensor) -> torch.Tensor:
...     return torch.from_numpy(x.detach().numpy() * 2)
>>> twice.register_autograd(lambda ctx, g: g * 2)
>>> x = torch.ones(2, requires_grad=True)
>>> twice(x).sum().backward()
>>> x.grad
tensor([2., 2.])
>>> torch.ops.mine.twice(x)
tensor([2., 2.], grad_fn=<mine::twiceBackward>)
"""

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cached_property, partial, update_wrapper
from types import SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np

from pellucid import dtypes, ops
from pellucid.absent import absent
from pellucid.core import modes
from pellucid.core.aliasing import owner_of
from pellucid.core.function import Function
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.errors import explain
from pellucid.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "impl", "infer_schema", "register_autocast", "register_autograd",
    "register_fake", "register_kernel", "register_vmap",
]  # fmt: skip

REGISTERED: dict[str, "CustomOpDef"] = {}

# The keys of PyTorch's dispatcher under which a function is the one to call here.
OURS = frozenset(("", "cpu", "CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "default"))


class Call:
    """How the arguments and results of one call are put together; a `Function` sees their leaves."""

    def __init__(self, arguments: TreeSpec) -> None:
        self.arguments = arguments
        self.results: Any = None

    def split(self, result: Any) -> Any:
        """The leaves of a result."""
        leaves, self.results = tree_flatten(result)
        return leaves[0] if self.results.is_leaf() else tuple(leaves)

    def joined(self, found: Any) -> Any:
        """A result made of its leaves."""
        return tree_unflatten(found if isinstance(found, tuple) else (found,), self.results)

    def spread(self, gradients: Any) -> list[Any]:
        """One gradient for each leaf of the arguments: None may stand for those of a whole list."""
        positional, named = self.arguments.children_specs
        given = gradients if isinstance(gradients, tuple) else (gradients,)
        if len(given) != len(positional.children_specs):
            arguments = len(positional.children_specs)
            raise RuntimeError(
                explain(
                    f"backward of a custom operation returned {len(given)} gradients for {arguments} arguments",
                    str(here()),
                    "each argument that is not keyword-only wants one, those that are no tensors too",
                    "return None for an argument that has no gradient",
                )
            )
        pairs = zip(positional.children_specs, given, strict=True)
        parts = [[None] * spec.num_leaves if each is None else tree_leaves(each) for spec, each in pairs]
        return [*itertools.chain(*parts), *[None] * named.num_leaves]


class CustomOpDef:
    """An operation with a name, its function, and what was registered for it.

    What it computes with is invisible to autograd: it is called by a `Function`, whose arguments are the leaves of its
    own and, last, the `Call` that says how they were put together. Unless it was registered with a dispatcher's key
    (`impl`): then it is a plain call until somebody gives it a rule.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._qualname = name
        self._first = self._function = function  # as defined; as it is for the CPU
        self._rules: dict[str, Callable[..., Any]] = {}
        self._recorded: Any = None
        self._autocast: Any = None  # the dtype of its inputs under autocast
        self._own_memory = False  # whether its results may not look at the memory of its arguments
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._autocast is not None and modes.current().autocast is not None:
            with modes.switched(autocast=None):
                return self(*(_cast(each, self._autocast) for each in args), **kwargs)
        if self._recorded is None:
            return self._function(*args, **kwargs)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        leaves, spec = tree_flatten((bound.args, bound.kwargs))
        call = Call(spec)
        return call.joined(self._recorded.apply(*leaves, call))

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self._first)

    def _rule(self, name: str, rule: Callable[..., Any]) -> None:
        self._rules[name] = rule
        self._record()

    def _record(self) -> None:
        methods = {"forward": self._forward, "setup_context": self._keep, "backward": self._backward}
        if "vmap" in self._rules:
            methods["vmap"] = self._vmap
        members: dict[str, Any] = {name: staticmethod(each) for name, each in methods.items()}
        self._recorded = type(self._qualname, (Function,), members | {"generate_vmap_rule": "vmap" not in methods})

    def _forward(self, *leaves: Any) -> Any:
        *given, call = leaves
        args, kwargs = tree_unflatten(given, call.arguments)
        result = self._function(*args, **kwargs)
        if self._own_memory:
            _check_apart(self._qualname, given, tree_leaves(result))
        return call.split(result)

    def _keep(self, ctx: Any, leaves: tuple[Any, ...], output: Any) -> None:
        *given, ctx.whole_call = leaves
        keep = self._rules.get("setup_context")
        if keep is not None:
            args, kwargs = tree_unflatten(given, ctx.whole_call.arguments)
            keep(ctx, args, *([kwargs] if kwargs else []), ctx.whole_call.joined(output))

    def _backward(self, ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        if "backward" not in self._rules:
            raise NotImplementedError(
                explain(
                    f"Trying to backward through {self._qualname} but no autograd formula was registered",
                    str(here()),
                    "the function of a custom operation is invisible to autograd",
                    "register_autograd(backward) gives it a derivative",
                )
            )
        arriving = ctx.whole_call.joined(gradients)
        found = self._rules["backward"](ctx, *(arriving if isinstance(arriving, tuple) else (arriving,)))
        return (*ctx.whole_call.spread(found), None)

    def _vmap(self, info: Any, in_dims: tuple[Any, ...], *leaves: Any) -> Any:
        *given, call = leaves
        args, kwargs = tree_unflatten(given, call.arguments)
        dims, _ = tree_unflatten(in_dims[:-1], call.arguments)
        result, out_dims = self._rules["vmap"](info, dims, *args, **kwargs)
        return call.split(result), tuple(out_dims) if isinstance(out_dims, list) else out_dims

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    @property
    def default(self) -> "CustomOpDef":
        """The only overload there is."""
        return self

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Give it a derivative: backward(ctx, *gradients), and setup_context(ctx, inputs, output) before."""
        if setup_context is not None:
            self._rules["setup_context"] = setup_context
        self._rule("backward", backward)

    def register_fake(self, fn: Any = None, /) -> Any:
        """Accepted: shapes are known from the results themselves."""
        return (lambda function: function) if fn is None else fn

    register_torch_dispatch = register_fake

    def register_vmap(self, func: Any = None) -> Any:
        """What it does to many at once: func(info, in_dims, *args) gives the results and where their batch is.

        >>> import pellucid as torch
        >>> @torch.library.custom_op("mine::cube", mutates_args=())
        ... def cube(x: torch.Tensor) -> torch.Tensor:
        ...     return torch.from_numpy(x.numpy() ** 3)
        >>> cube.register_vmap(lambda info, in_dims, x: (cube(x), in_dims[0]))
        >>> torch.vmap(cube)(torch.arange(3.0))
        tensor([0., 1., 8.])
        """
        return self.register_vmap if func is None else self._rule("vmap", func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Under autocast, compute with inputs of this dtype; what is said of other devices is never asked."""
        if device_type == "cpu":
            self._autocast = cast_inputs

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Inside a block, use the function that was registered for the CPU, or the one that it was defined with."""
        before = self._function
        if device_type == "cpu" and not enabled:
            self._function = self._first
        try:
            yield
        finally:
            self._function = before

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Take another function for the CPU; those for other devices are never called."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        if device_types is None or "cpu" in device_types:
            self._function = fn
        return fn


def _check_apart(name: str, given: Sequence[Any], results: Sequence[Any]) -> None:
    """Refuse results that look at the memory of an argument or of another result: nobody could follow a write."""
    memory = {id(owner_of(each.array)) for each in given if _in_memory(each)}
    for each in filter(_in_memory, results):
        owner = id(owner_of(each.array))
        if owner in memory:
            raise RuntimeError(
                explain(
                    f"{name}: The output of this custom operator (1) must not also be an input to this custom operator "
                    "and (2) may not alias any inputs to this custom operator or other returns",
                    str(here()),
                    "autograd does not look inside a custom operator and could not follow a write to one of them",
                    "return a copy: x.clone()",
                )
            )
        memory.add(owner)


def _in_memory(value: Any) -> bool:
    return isinstance(value, Tensor) and isinstance(value.array, np.ndarray)


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any = (), device_types: Any = None,
    schema: str | None = None, **options: Any,
) -> Any:  # fmt: skip
    """Make a function an operation; without a function, a decorator."""
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args)
    made = _registered(name, fn)
    made._own_memory = True
    made._record()
    return made


def _registered(name: str, fn: Callable[..., Any]) -> CustomOpDef:
    """Keep an operation under its name "space::name", which is torch.ops.space.name, too."""
    made = REGISTERED[name] = CustomOpDef(name, fn)
    space, _, rest = name.partition("::")
    setattr(vars(ops).setdefault(space, SimpleNamespace()), rest.partition(".")[0], made)
    return made


class Library:
    """Operations of one name space: `define` says what they are called, `impl` what they do.

    >>> import pellucid as torch
    >>> mine = torch.library.Library("sums", "DEF")
    >>> mine.define("plus_one(Tensor x) -> Tensor")
    'plus_one'
    >>> mine.impl("plus_one", lambda x: x + 1, "CPU")
    >>> torch.ops.sums.plus_one(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """The name in a schema such as "plus_one(Tensor x) -> Tensor"."""
        return schema.partition("(")[0].strip()

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        """What an operation does; functions for other devices, or for derivatives, are never called here."""
        if (dispatch_key or self.dispatch_key) in OURS:
            name = op_name if isinstance(op_name, str) else op_name.__name__
            _registered(f"{self.ns}::{name.rpartition('::')[2]}", fn)


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Accepted: an operation is there when `impl` says what it does."""


def _implemented(library: Library, name: str, key: str, function: Callable[..., Any]) -> Callable[..., Any]:
    library.impl(name, function, key)
    return function


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """What an operation does; without a function, a decorator.

    >>> import pellucid as torch
    >>> torch.library.define("sums::minus_one", "(Tensor x) -> Tensor")
    >>> @torch.library.impl("sums::minus_one", "cpu")
    ... def minus_one(x):
    ...     return x - 1
    >>> torch.ops.sums.minus_one(torch.ones(2))
    tensor([0., 0.])
    """
    if isinstance(qualname, Library):  # the older form: impl(library, name, key)
        return partial(_implemented, qualname, types, func or "")
    if func is None:
        return lambda function: impl(qualname, types, function)
    if any(each in OURS for each in ((types,) if isinstance(types, str) else types)):
        _registered(qualname, func)
    return func


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str | None = None) -> str:
    """What a function takes and gives, as PyTorch's schemas say it.

    >>> import pellucid as torch
    >>> def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    ...     return x * by
    >>> torch.library.infer_schema(scaled, op_name="scaled", mutates_args=())
    'scaled(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function, eval_str=True)
    _check_prototype(signature, mutates_args)
    parts: list[str] = []
    for i, (name, each) in enumerate(signature.parameters.items()):
        if each.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        kind = _kind(each.annotation, f"Parameter {name}")
        if mutates_args == "unknown" or name in mutates_args:
            kind = kind.replace("Tensor", f"Tensor(a{i}!)", 1)
        default = "" if each.default is each.empty else f"={_shown(each.default)}"
        parts.append(f"{kind} {name}{default}")
    return f"{op_name or ''}({', '.join(parts)}) -> {_results(signature.return_annotation)}"


def _check_prototype(signature: inspect.Signature, mutates_args: Any) -> None:
    """Refuse what a schema cannot say."""
    parameters = signature.parameters
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(f"mutates_args must be a sequence of names or 'unknown', got {mutates_args!r}")
    if mutates_args != "unknown" and (unknown := set(mutates_args) - set(parameters)):
        raise ValueError(f"infer_schema(func): {unknown} in mutates_args were not found in {signature}")
    for name, each in parameters.items():
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise ValueError(
                "infer_schema(func): We do not support positional-only args, varargs, or varkwargs. Got func with "
                f"signature {signature}"
            )
        if each.annotation is each.empty:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation.")
    if signature.return_annotation is signature.empty:
        raise ValueError(f"infer_schema(func): No return type annotation was provided. Please add one to {signature}")


KINDS = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", dtypes.dtype: "ScalarType",
         dtypes.device: "Device"}  # fmt: skip
SCALAR = {int, float, bool}
RESULTS = frozenset(("Tensor", "SymInt", "float", "bool", "Tensor[]", "Scalar"))


def _kind(annotation: Any, what: str) -> str:
    """A type as a schema names it: Optional is "?", a list "[]", a number of any type Scalar."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        inside = [part for part in parts if part is not type(None)]
        mark = "?" if len(inside) < len(parts) else ""
        if set(inside) == SCALAR:
            return f"Scalar{mark}"
        if len(inside) == 1:
            return f"{_kind(inside[0], what)}{mark}"
    elif origin in (list, Sequence) and parts:
        return f"{_kind(parts[0], what)}[]"
    elif annotation in KINDS:
        return KINDS[annotation]
    valid = ", ".join((*KINDS.values(), "Scalar"))
    raise ValueError(
        f"infer_schema(func): {what} has unsupported type {annotation}. The valid types are {valid}, and lists and "
        "Optional of them."
    )


def _shown(default: Any) -> str:
    if isinstance(default, (str, dtypes.device)):
        return f'"{default}"'
    return str(default).removeprefix("torch.")


def _results(annotation: Any) -> str:
    if annotation is None:
        return "()"
    if get_origin(annotation) is tuple:
        return f"({', '.join(_results(part) for part in get_args(annotation))})"
    kind = _kind(annotation, "Return")
    if kind not in RESULTS:
        raise ValueError(f"infer_schema(func): Return has unsupported type {annotation}. Give tensors or numbers.")
    return kind


def _cast(value: Any, dtype: Any) -> Any:
    """A floating-point tensor in a dtype; anything else as it is."""
    floating = isinstance(value, Tensor) and value.is_floating_point()  # type: ignore[attr-defined]
    return value.to(dtype) if floating else value


def _found(op: Any) -> CustomOpDef:
    if op not in REGISTERED and not isinstance(op, CustomOpDef):
        raise ValueError(f"there is no operation {op!r}: torch.library.custom_op makes one")
    return op if isinstance(op, CustomOpDef) else REGISTERED[op]


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """Accepted: shapes are known from the results themselves, so it may be of an operation that is not here."""
    return (lambda function: function) if func is None else func


def register_kernel(op: Any, device_types: Any, func: Any = None, /, **options: Any) -> Any:
    """Take another function for the CPU."""
    return _found(op).register_kernel(device_types, func)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Say what an operation does to many at once; without a function, a decorator."""
    return _found(op).register_vmap(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Say in which dtype an operation computes under autocast."""
    _found(op).register_autocast(device_type, cast_inputs)


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Give an operation a derivative."""
    _found(op).register_autograd(backward, setup_context=setup_context)


Tag = Enum(
    "Tag",
    """core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout generated inplace inplace_view
    maybe_aliasing_or_mutating needs_contiguous_strides needs_exact_strides needs_fixed_stride_order
    nondeterministic_bitwise nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction view_copy""",
    start=0,
)
Tag.__doc__ = """What an operation may be said to be; nothing here asks for it.

>>> import pellucid as torch
>>> torch.Tag.pointwise.name
'pointwise'
"""

NAMES = """
fallthrough_kernel get_ctx get_kernel impl_abstract opcheck register_torch_dispatch triton_op wrap_triton
"""
__getattr__ = absent(
    "torch.library",
    NAMES,
    "operations are Python functions here",
    "torch.library.custom_op, or torch.autograd.Function",
)
