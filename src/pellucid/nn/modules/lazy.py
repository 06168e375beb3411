"""Lazy modules: layers that learn the size of their input from the first one they see."""

from typing import Any

from pellucid.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Mixed into a layer: parameters without a shape get it, and their values, at the first call.

    After that call the module is of the class `cls_to_become`.

    >>> import pellucid as torch
    >>> layer = torch.nn.LazyLinear(3)
    >>> layer.has_uninitialized_params()
    True
    >>> _ = layer(torch.ones(1, 5))
    >>> layer
    Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(  # type: ignore[attr-defined]
            _initialize_from_first_input, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes; every lazy layer writes its own."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether some parameter or buffer has no shape yet."""
        tensors = (*self._parameters.values(), *self._buffers.values())  # type: ignore[attr-defined]
        return any(is_lazy(tensor) for tensor in tensors)


def _initialize_from_first_input(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    module._initialize_hook.remove()
    del module.__dict__["_initialize_hook"]
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become
