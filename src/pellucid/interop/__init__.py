"""Tensors among NumPy's functions and the arrays of other libraries.

Where one argument of a NumPy function is a tensor, the function is one of Pellucid's: it returns a tensor and is
recorded. `ufuncs.py` has the table of NumPy's ufuncs (`np.sin(x)`, `array * x`, `np.add.reduce(x)`), `functions.py`
leads to all others (`np.concatenate([x, y])`, `np.linalg.inv(x)`); memory goes to other libraries and comes back
without a copy by DLPack (`dlpack.py`). Dtypes meet as PyTorch's do, and every result lives in this world: what NumPy
alone can do is refused with the way out, `x.detach().numpy()`.

>>> import numpy as np, pellucid as torch
>>> x = torch.tensor([0.0, 1.0], requires_grad=True)
>>> y = np.sum(np.array([1.0, 2.0]) * np.exp(x))
>>> y.backward()
>>> x.grad
tensor([1.0000, 5.4366])

The tables are loaded when first needed, so that `import pellucid` stays quick.
"""

from importlib import import_module
from typing import Any

from pellucid.core.tensor import Tensor


def _later(method: str, module: str) -> None:
    """Give tensors a method that a module brings: the first call loads it, and it takes this one's place."""

    def first(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        import_module(module)
        return getattr(Tensor, method)(self, *args, **kwargs)

    first.__name__ = first.__qualname__ = method
    setattr(Tensor, method, first)


_later("__array_ufunc__", "pellucid.interop.ufuncs")
_later("__array_function__", "pellucid.interop.functions")
_later("__dlpack__", "pellucid.interop.dlpack")
_later("__dlpack_device__", "pellucid.interop.dlpack")
_later("__array_namespace__", "pellucid.array_api")
_later("to_device", "pellucid.array_api")
_later("as_subclass", "pellucid.interop.subclasses")
_later("_make_subclass", "pellucid.interop.subclasses")


def _first_subclass(cls: type[Tensor], **options: Any) -> None:
    """A class derived from Tensor brings the module in that makes room for such."""
    super(Tensor, cls).__init_subclass__(**options)
    import_module("pellucid.interop.subclasses").adopt(cls)


setattr(Tensor, "__init_subclass__", classmethod(_first_subclass))  # noqa: B010 (mypy)

setattr(Tensor, "__array_priority__", 1000)  # noqa: B010 (mypy); as PyTorch's: older libraries leave operators to us
