"""Pruning: elements or channels of a parameter are held at zero by a mask.

The parameter moves to `name_orig`, the mask is the buffer `name_mask`, and before every forward `name` is their
product. Pruning again prunes what the mask left; `remove` makes it permanent.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import pellucid as torch
from pellucid.nn.modules.module import Module
from pellucid.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """A way to choose what to prune: write `compute_mask`."""

    _tensor_name: str
    PRUNING_TYPE = "unstructured"  # or "structured" (whole channels), or "global" (all of the tensor)

    def __call__(self, module: Module, inputs: Any) -> None:
        """The hook: give the module its pruned tensor."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for a tensor of importances: 0 where it is pruned. What `default_mask` prunes stays pruned."""

    def apply_mask(self, module: Module) -> Any:
        """The pruned tensor."""
        name = self._tensor_name
        mask, original = getattr(module, f"{name}_mask"), getattr(module, f"{name}_orig")
        return mask.to(original.dtype) * original

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A pruned copy of a tensor; modules have nothing to do with it."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        mask = self.compute_mask(scores, torch.ones_like(t) if default_mask is None else default_mask)
        return t * mask

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune a tensor of a module, the first time or again; returns the hook that is in place then."""
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        key = _found(module, name)
        again = key is not None
        original = getattr(module, f"{name}_orig" if again else name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )  # fmt: skip
        default = getattr(module, f"{name}_mask").detach().clone() if again else torch.ones_like(original).detach()
        if again:
            method = _joined(module._forward_pre_hooks[key], method)
        mask = method.compute_mask(scores.detach(), default)
        if again:
            del module._forward_pre_hooks[key]
        else:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def remove(self, module: Module) -> None:
        """Make the pruned values the parameter's own; the hook itself is taken out by `remove(module, name)`."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        original = module._parameters[f"{name}_orig"]
        original.data = weight.data
        delattr(module, name)
        del module._parameters[f"{name}_orig"], module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several prunings of one tensor, one after the other; each prunes what those before it left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add one more, of the same tensor."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of the last pruning, of what the mask so far leaves."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype, copy=True)
        if method.PRUNING_TYPE == "unstructured":
            left: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim  # type: ignore[attr-defined]
            kept = mask.movedim(dim, 0).flatten(1).sum(1) != 0
            left = (*(slice(None),) * dim, kept)
        elif method.PRUNING_TYPE == "global":
            left = (slice(None),) * t.ndim
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask[left] = method.compute_mask(t[left], mask[left]).to(mask.dtype)
        return mask


def _joined(before: Any, method: BasePruningMethod) -> PruningContainer:
    container = before if isinstance(before, PruningContainer) else PruningContainer(before)
    joined = PruningContainer(*container[:1])
    for each in (*container[1:], method):
        joined.add_pruning_method(each)
    return joined


# --- how much


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount: Any, size: int) -> int:
    """How many of `size` to prune: a number, or a share."""
    if isinstance(amount, float):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return int(amount)


# --- the methods


class Identity(BasePruningMethod):
    """Prunes nothing, but puts the mask in place."""

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask as it was."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random."""

    def __init__(self, amount: Any) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zeros at random places."""
        count = _count(self.amount, t.numel())
        return _without(default_mask, torch.rand_like(t), count, largest=True) if count else default_mask.clone()


class L1Unstructured(RandomUnstructured):
    """Prunes the elements with the smallest absolute values."""

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zeros where the elements are smallest."""
        count = _count(self.amount, t.numel())
        return _without(default_mask, t.abs(), count, largest=False) if count else default_mask.clone()


def _without(mask: Any, scores: Any, count: int, largest: bool) -> Any:
    places = torch.topk(scores.reshape(-1), count, largest=largest).indices
    return mask.reshape(-1).index_fill(0, places, 0).reshape(mask.shape)


class RandomStructured(BasePruningMethod):
    """Prunes whole channels, along one dimension, at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def scores(self, t: Any) -> Any:
        """One number per channel: the smallest are pruned."""
        return torch.rand(t.shape[self.dim])

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Zeros in the channels with the smallest scores."""
        if t.ndim <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.ndim} dims"
            )
        if self.dim >= t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if not count:
            return default_mask
        kept = torch.topk(self.scores(t), size - count, largest=True).indices
        return torch.zeros_like(t).index_fill(self.dim, kept, 1).to(default_mask.dtype) * default_mask


class LnStructured(RandomStructured):
    """Prunes the channels, along one dimension, with the smallest norm of order n."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Any) -> Any:
        """The norm of each channel."""
        return torch.norm(t.movedim(self.dim, 0).flatten(1), p=self.n, dim=1)


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask given, of what was left."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


# --- the functions


def identity(module: Module, name: str) -> Module:
    """Put a mask of ones in place."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune a number, or a share, of the elements at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Any, importance_scores: Any = None) -> Module:
    """Prune a number, or a share, of the elements: those with the smallest absolute values.

    >>> import pellucid as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> layer.weight.data = torch.tensor([[0.1, -3.0]])
    >>> torch.nn.utils.prune.l1_unstructured(layer, "weight", amount=1).weight_mask
    tensor([[0., 1.]])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune whole channels, along one dimension, at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None) -> Module:
    """Prune the channels, along one dimension, with the smallest norm of order n."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Any) -> Module:
    """Prune where a mask is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any) -> None:
    """Prune elements of several parameters, (module, name) each, that are compared with each other.

    >>> import pellucid as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    >>> both = [(layer, "weight") for layer in model]
    >>> torch.nn.utils.prune.global_unstructured(both, torch.nn.utils.prune.L1Unstructured, amount=3)
    >>> int(sum(layer.weight_mask.sum() for layer in model))
    5
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, Mapping):
        raise TypeError("global_unstructured(): importance_scores should be of type dict")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    places = list(parameters)
    tensors = [getattr(module, name) for module, name in places]
    masks = [getattr(module, f"{name}_mask", torch.ones_like(t)) for (module, name), t in zip(places, tensors)]
    method._tensor_name = "joined"
    both = parameters_to_vector([scores.get(place, t) for place, t in zip(places, tensors)])
    mask = PruningContainer(method).compute_mask(both.detach(), parameters_to_vector(masks).detach())
    begin = 0
    for (module, name), tensor in zip(places, tensors):
        custom_from_mask(module, name, mask[begin : begin + tensor.numel()].view_as(tensor))
        begin += tensor.numel()


def _found(module: Module, name: str) -> Any:
    """The key of the hook that prunes a tensor, or None."""
    hooks = module._forward_pre_hooks.items()
    return next((key for key, hook in hooks if isinstance(hook, BasePruningMethod) and hook._tensor_name == name), None)


def remove(module: Module, name: str) -> Module:
    """Make pruning permanent: the pruned values become the parameter's own, mask and hook go."""
    key = _found(module, name)
    if key is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    module._forward_pre_hooks[key].remove(module)  # type: ignore[attr-defined]
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Module) -> bool:
    """Whether something in a module is pruned.

    >>> import pellucid as torch
    >>> torch.nn.utils.prune.is_pruned(torch.nn.Linear(2, 2))
    False
    """
    hooks = [hook for part in module.modules() for hook in part._forward_pre_hooks.values()]
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)
