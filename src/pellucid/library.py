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

from collections.abc import Callable
from enum import Enum
from functools import partial, update_wrapper
from types import SimpleNamespace
from typing import Any

from pellucid import ops
from pellucid.absent import absent
from pellucid.core.function import Function

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "impl", "register_autograd", "register_fake", "register_kernel",
]  # fmt: skip

REGISTERED: dict[str, "CustomOpDef"] = {}

# The keys of PyTorch's dispatcher under which a function is the one to call here.
OURS = frozenset(("", "cpu", "CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "default"))


class CustomOpDef:
    """An operation with a name, its function, and what was registered for it."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._qualname = name
        self._function: Callable[..., Any] = function
        self._recorded: Any = None
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._recorded or self._function)(*args, **kwargs)

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
        keep = setup_context or (lambda ctx, inputs, output: None)
        members = {"forward": self._function, "setup_context": keep, "backward": backward}
        function: Any = type(self._qualname, (Function,), {name: staticmethod(each) for name, each in members.items()})
        self._recorded = function.apply

    def register_fake(self, fn: Any = None, /) -> Any:
        """Accepted: shapes are known from the results themselves."""
        return (lambda function: function) if fn is None else fn

    register_vmap = register_torch_dispatch = register_fake

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Take another function for the CPU; those for other devices are never called."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        if device_types is None or "cpu" in device_types:
            self._function = fn
        return fn


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any = (), device_types: Any = None,
    schema: str | None = None, **options: Any,
) -> Any:  # fmt: skip
    """Make a function an operation; without a function, a decorator."""
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args)
    return _registered(name, fn)


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
fallthrough_kernel get_ctx get_kernel impl_abstract infer_schema opcheck register_autocast register_torch_dispatch
register_vmap triton_op wrap_triton
"""
__getattr__ = absent(
    "torch.library",
    NAMES,
    "operations are Python functions here",
    "torch.library.custom_op, or torch.autograd.Function",
)
