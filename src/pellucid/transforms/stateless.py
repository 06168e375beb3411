"""Functions without state: modules called with other tensors than their own, one or many at a time."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pellucid.core.provenance import here
from pellucid.core.tensor import Leaf, Tensor, wrap
from pellucid.core.views import current_array, current_node


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers, named as `named_parameters` names them.

    The module is as it was afterwards, also after an error. With `tie_weights` a tensor the module holds under
    several names is replaced under all of them. A name that the module does not have is an attribute during the call.
    A tensor that the module puts in the place of a given one takes its place in the dictionary, too.

    >>> import pellucid as torch
    >>> class Scale:
    ...     factor = torch.tensor(2.0)
    ...     def named_parameters(self): return [("factor", self.factor)]
    ...     def named_buffers(self): return []
    ...     def __call__(self, x): return x * self.factor
    >>> torch.func.functional_call(Scale(), {"factor": torch.tensor(10.0)}, torch.tensor(1.0))
    tensor(10.)
    """
    given = _merged(parameter_and_buffer_dicts)
    looked_up = tie_weights or strict  # a module that contains itself has no end of names
    known = {**_named(module, "named_parameters"), **_named(module, "named_buffers")} if looked_up else {}
    values = _tied(given, known) if tie_weights else dict(given)
    if strict:
        _check_names(type(module).__name__, values.keys(), known.keys())
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    before: list[tuple[str, Any, str, Any]] = []
    try:
        for name, value in values.items():
            *path, last = name.split(".")
            owner = functools.reduce(getattr, path, module)
            _check_tensors(owner, name, last, value)
            before.append((name, owner, last, _exchange(owner, last, value)))
        return module(*args, **(kwargs or {}))
    finally:
        after = {name: _exchange(owner, last, value) for name, owner, last, value in reversed(before)}
        given.update({name: after[name] for name in given if isinstance(after.get(name), Tensor)})


ABSENT = object()  # an object found its attribute in its class, not in itself


def _exchange(owner: Any, name: str, value: Any) -> Any:
    """Put a value where an object keeps one under this name, and return what was there."""
    for home in (getattr(owner, "_parameters", None), getattr(owner, "_buffers", None), vars(owner)):
        if home is not None and name in home:
            old = home[name]
            if value is ABSENT:
                delattr(owner, name)
            else:
                home[name] = value
            return old
    if hasattr(owner, name):
        vars(owner)[name] = value
    else:
        setattr(owner, name, value)  # a new parameter of a module is one during the call
    return ABSENT


def _check_tensors(owner: Any, name: str, last: str, value: Any) -> None:
    """Only tensors are exchanged, and only for tensors."""
    if not isinstance(value, (Tensor, type(None))):
        raise TypeError(f"{value} is not an instance of torch.Tensor: it was given for `{name}`")
    present = getattr(owner, last, None)
    if not isinstance(present, (Tensor, type(None))):
        raise TypeError(f"attribute `{name}`: {present} is not an instance of torch.Tensor")


def _merged(dicts: Any) -> dict[str, Any]:
    """The dictionary that was given, or one of all that were given."""
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, (tuple, list)) or not all(isinstance(part, dict) for part in dicts):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    merged: dict[str, Any] = {}
    for part in dicts:
        for name in part:
            if name in merged:
                raise ValueError(f"{name} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        merged.update(part)
    return merged


def _named(module: Any, method: str) -> dict[str, Any]:
    """All names of a module's tensors; those of shared tensors too, where the method can tell them."""
    try:
        return dict(getattr(module, method)(remove_duplicate=False))
    except TypeError:
        return dict(getattr(module, method)())


def _check_names(title: str, given: Iterable[str], known: Iterable[str]) -> None:
    missing, unexpected = sorted(set(known) - set(given)), sorted(set(given) - set(known))
    if missing or unexpected:
        parts = [f"Unexpected key(s): {str(unexpected)[1:-1]}."] if unexpected else []
        parts += [f"Missing key(s): {str(missing)[1:-1]}."] if missing else []
        raise RuntimeError("\n\t".join([f"Error(s) in reparametrizing for {title}:", *parts]))


def _tied(values: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The values with those of the tensors that the module has under several names, under all of them."""
    given: dict[int, dict[str, Any]] = {}
    for name, value in values.items():
        if name in known:
            given.setdefault(id(known[name]), {})[name] = value
    for several in given.values():
        if len({id(value) for value in several.values()}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(several)}, which are tied. Consider using "
                "tie_weights=False"
            )
    tied = {name: next(iter(given[id(tensor)].values())) for name, tensor in known.items() if id(tensor) in given}
    return {**tied, **values}


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of several models of one class, each stacked: what `vmap` runs an ensemble on.

    >>> import pellucid as torch
    >>> models = [torch.nn.Linear(2, 3) for _ in range(5)]
    >>> params, buffers = torch.func.stack_module_state(models)
    >>> params["weight"].shape
    torch.Size([5, 3, 2])
    >>> def run(params, x): return torch.func.functional_call(models[0], params, (x,))
    >>> torch.func.vmap(run, in_dims=(0, None))(params, torch.ones(2)).shape
    torch.Size([5, 3])
    """
    check_alike(models, "stack_module_state")
    found = []
    for method in ("named_parameters", "named_buffers"):
        by_model = [dict(getattr(model, method)()) for model in models]
        found.append({name: _stacked(name, [each[name] for each in by_model]) for name in by_model[0]})
    return found[0], found[1]


def check_alike(models: Sequence[Any], name: str) -> None:
    """Refuse models that cannot run as one ensemble."""
    what = f"{name}: Expected"
    if not models:
        raise RuntimeError(f"{what} at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(f"{what} all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(f"{what} all models to be of the same class.")


def _stacked(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of several models as one leaf."""
    needs = {current_node(tensor) is not None for tensor in tensors}
    if len(needs) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    made = wrap(np.stack([current_array(tensor) for tensor in tensors]))
    if needs.pop():
        made.node = Leaf(made, here())
    return made


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function itself: in-place operations are recorded as their functional forms anyway.

    >>> import pellucid as torch
    >>> def doubled(x):
    ...     y = x.clone()
    ...     y.mul_(2)
    ...     return y
    >>> torch.func.functionalize(doubled)(torch.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}.")
    return func
