"""Values that cannot be changed; layouts and memory formats, which are nothing but names."""

from typing import Final, NoReturn, Self, TypeVar

__all__ = [
    "channels_last", "channels_last_3d", "contiguous_format", "jagged", "layout", "legacy_contiguous_format",
    "memory_format", "preserve_format", "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc", "sparse_csr", "strided",
]  # fmt: skip


def _refuse_change(instance: object, name: str) -> NoReturn:
    """Raise the error torch raises on assigning to an attribute of its constants."""
    kind = type(instance).__name__
    if hasattr(instance, name):
        raise AttributeError(f"attribute '{name}' of 'torch.{kind}' objects is not writable")
    raise AttributeError(f"'torch.{kind}' object has no attribute '{name}'")


class Immutable:
    """A base whose instances refuse assignment; constructors write with `object.__setattr__`."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        _refuse_change(self, name)

    def __delattr__(self, name: str) -> None:
        _refuse_change(self, name)


class _NamedConstant(Immutable):
    """A constant that only has a name; `_make_constant` is the one way to get an instance."""

    __slots__ = ("_name",)

    _name: str

    def __new__(cls, *args: object) -> Self:
        raise TypeError(f"cannot create 'torch.{cls.__name__}' instances")

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_NamedConstant):
    """How a tensor's elements lie in memory; ours are all strided.

    >>> strided
    torch.strided
    """

    __slots__ = ()


class memory_format(_NamedConstant):
    """The order of a tensor's dimensions in memory, accepted where torch accepts one.

    >>> channels_last
    torch.channels_last
    """

    __slots__ = ()


_Constant = TypeVar("_Constant", bound=_NamedConstant)


def _make_constant(kind: type[_Constant], name: str) -> _Constant:
    """Make a named constant past the constructor that refuses callers."""
    instance = object.__new__(kind)
    object.__setattr__(instance, "_name", name)
    return instance


strided: Final = _make_constant(layout, "strided")
sparse_coo: Final = _make_constant(layout, "sparse_coo")
sparse_csr: Final = _make_constant(layout, "sparse_csr")  # of this and the next no tensor is; programs compare
sparse_csc: Final = _make_constant(layout, "sparse_csc")
sparse_bsr: Final = _make_constant(layout, "sparse_bsr")
sparse_bsc: Final = _make_constant(layout, "sparse_bsc")
jagged: Final = _make_constant(layout, "jagged")

contiguous_format: Final = _make_constant(memory_format, "contiguous_format")
preserve_format: Final = _make_constant(memory_format, "preserve_format")
legacy_contiguous_format: Final = contiguous_format
channels_last: Final = _make_constant(memory_format, "channels_last")
channels_last_3d: Final = _make_constant(memory_format, "channels_last_3d")
