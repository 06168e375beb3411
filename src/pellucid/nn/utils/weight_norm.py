"""Weight norm as a hook: the older form of `parametrizations.weight_norm`."""

from typing import Any

from pellucid.core.provenance import warn
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter
from pellucid.ops.nn.weight_norm import _weight_norm, norm_except_dim

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """Before every forward, the weight is made of its lengths `name_g` and its directions `name_v`."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight as it is now."""
        return _weight_norm(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> "WeightNorm":
        """Put the hook in."""
        if _found(module, name) is not None:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(norm_except_dim(weight, 2, hook.dim).data))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        for part in ("g", "v"):
            del module._parameters[f"{self.name}_{part}"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _found(module: Module, name: str) -> Any:
    """The key of the hook of a weight, or None."""
    hooks = module._forward_pre_hooks.items()
    return next((key for key, hook in hooks if isinstance(hook, WeightNorm) and hook.name == name), None)


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Learn the length and the direction of slices apart; `parametrizations.weight_norm` is the newer form.

    >>> import pellucid as torch
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):  # it says that there is a newer form
    ...     layer = torch.nn.utils.weight_norm(torch.nn.Linear(2, 3))
    >>> {name: tuple(value.shape) for name, value in layer.state_dict().items()}
    {'bias': (3,), 'weight_g': (3, 1), 'weight_v': (3, 2)}
    """
    warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again.

    >>> import pellucid as torch
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):  # it says that there is a newer form
    ...     layer = torch.nn.utils.weight_norm(torch.nn.Linear(2, 3))
    >>> list(torch.nn.utils.remove_weight_norm(layer).state_dict())
    ['bias', 'weight']
    """
    key = _found(module, name)
    if key is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    module._forward_pre_hooks[key].remove(module)  # type: ignore[attr-defined]
    del module._forward_pre_hooks[key]
    return module
