"""torch.utils.weak: dictionaries whose keys are objects themselves, not what they equal, and that keep no key alive.

>>> import pellucid as torch
>>> notes = WeakTensorKeyDictionary()
>>> x = torch.ones(2)
>>> notes[x] = "ones"
>>> notes[x], x.clone() in notes
('ones', False)
>>> del x
>>> len(notes)
0
"""

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that equals another one if both are of the same object."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, WeakIdRef) else None
        return self is other if mine is None or theirs is None else mine is theirs


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary by identity, which forgets an entry when its key is gone."""

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        if dict is not None:
            self.update(dict)

    def _reference(self, key: Any) -> Any:
        data = self.data
        return self.ref_type(key, lambda gone: data.pop(gone, None))

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self._reference(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what no weak reference can be of is no key
            return False

    def __iter__(self) -> Iterator[Any]:
        return (key for key in [reference() for reference in list(self.data)] if key is not None)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[Any]:
        """Weak references of the keys."""
        return list(self.data)

    def copy(self) -> "WeakIdKeyDictionary":
        """Another dictionary of the same keys and values."""
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def __or__(self, other: Any) -> "WeakIdKeyDictionary":
        both = self.copy()
        both.update(other)
        return both

    def __ior__(self, other: Any) -> "WeakIdKeyDictionary":
        self.update(other)
        return self


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference of a tensor.

    >>> import pellucid as torch
    >>> x = torch.ones(2)
    >>> TensorWeakRef(x)() is x
    True
    """

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()
