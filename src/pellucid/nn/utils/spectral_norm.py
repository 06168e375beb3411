"""Spectral norm as a hook: the older form of `parametrizations.spectral_norm`."""

from typing import Any

import pellucid as torch
from pellucid.core import modes
from pellucid.nn import functional
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter, is_lazy
from pellucid.nn.utils.parametrizations import output_dimension

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """Before every forward, the weight is `name_orig` divided by its largest singular value, as the hook knows it."""

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """The weight with the dimension of its outputs in front and the others as one."""
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)

    def _unit(self, vector: Any) -> Any:
        return functional.normalize(vector, dim=0, eps=self.eps)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Any:
        """The weight as it is now; its two vectors are followed in place."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with modes.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(self._unit(matrix.mT.mv(u)))
                    u.copy_(self._unit(matrix.mv(v)))
        return weight / torch.dot(u.clone(), matrix.mv(v.clone()))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> "SpectralNorm":
        """Put the hook in."""
        if _found(module, name) is not None:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Run a forward pass first, so "
                "that the weight has its shape."
            )
        with modes.no_grad():
            matrix = hook.reshape_weight_to_matrix(weight)
            u, v = (hook._unit(matrix.new_empty(size).normal_(0, 1)) for size in matrix.shape)
        del module._parameters[name]
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with modes.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for part in ("u", "v", "orig"):
            delattr(module, f"{self.name}_{part}")
        module.register_parameter(self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))


def _found(module: Module, name: str) -> Any:
    """The key of the hook of a weight, or None."""
    hooks = module._forward_pre_hooks.items()
    return next((key for key, hook in hooks if isinstance(hook, SpectralNorm) and hook.name == name), None)


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Keep the largest singular value of a weight at 1; `parametrizations.spectral_norm` is the newer form.

    >>> import pellucid as torch
    >>> list(torch.nn.utils.spectral_norm(torch.nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dimension(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again.

    >>> import pellucid as torch
    >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(2, 3))
    >>> list(torch.nn.utils.remove_spectral_norm(layer).state_dict())
    ['bias', 'weight']
    """
    key = _found(module, name)
    if key is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    module._forward_pre_hooks[key].remove(module)  # type: ignore[attr-defined]
    del module._forward_pre_hooks[key]
    return module
