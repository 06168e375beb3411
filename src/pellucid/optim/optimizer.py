"""Optimizer: parameters in groups, the state kept for each of them, hooks, and what of it is saved and loaded."""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import chain, repeat
from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.backward import SET_GRAD
from pellucid.core.commit import run_all
from pellucid.core.departures import cleared
from pellucid.core.inplace import copying, write_all
from pellucid.core.provenance import here, warn
from pellucid.core.tensor import Handle, Hooks, Tensor, wrap
from pellucid.dtypes import float64, get_default_dtype
from pellucid.errors import explain

__all__ = ["Optimizer", "ParamsT", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required"]

Hook = Callable[..., Any]
Group = dict[str, Any]
ParamsT = Iterable[Any]  # tensors, (name, tensor) pairs, or groups: dicts with "params" and options of their own
HOOKS = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip

# Hooks around the step of every optimizer there is.
BEFORE_EVERY_STEP, AFTER_EVERY_STEP = Hooks(), Hooks()


class _Required:
    """Stands for a default that has no value: every parameter group must bring its own."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """The base of all optimizers: write `step`, which reads `p.grad` and changes `p` for every `p` in the groups.

    >>> import pellucid as torch
    >>> class Halve(torch.optim.Optimizer):
    ...     def step(self, closure=None):
    ...         with torch.no_grad():
    ...             for group in self.param_groups:
    ...                 for p in group["params"]:
    ...                     p.mul_(group["factor"])
    >>> weight = torch.tensor([8.0], requires_grad=True)
    >>> Halve([weight], {"factor": 0.5}).step()
    >>> weight
    tensor([4.], requires_grad=True)
    """

    _optimizer_step_pre_hooks: Hooks
    _optimizer_step_post_hooks: Hooks
    _optimizer_state_dict_pre_hooks: Hooks
    _optimizer_state_dict_post_hooks: Hooks
    _optimizer_load_state_dict_pre_hooks: Hooks
    _optimizer_load_state_dict_post_hooks: Hooks
    state: "defaultdict[Any, Any]"  # of every parameter: what the optimizer remembers of it
    param_groups: list[Group]  # "params" and the options they share

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got a tensor: "
                "write [parameter] or model.parameters()"
            )
        self.defaults = defaults
        self._prepare()
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError(
                explain(
                    "optimizer got an empty parameter list",
                    str(here()),
                    "the model has no parameters (layers in a plain list are not seen: use nn.ModuleList), or "
                    "`parameters()` was used up: it is an iterator",
                    "optim.SGD(model.parameters(), lr=0.1)",
                )
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self) -> None:
        """Make what is not pickled: hooks, and the class's `step` with hooks around it."""
        for name in HOOKS:
            setattr(self, name, Hooks())
        cls = type(self)
        if not hasattr(cls.step, "hooked"):
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    # --- stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters by one step; every optimizer writes its own."""
        raise NotImplementedError(f"{type(self).__name__} is missing its step()")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or, with set_to_none=False, fill them with zeros).

        >>> import pellucid as torch
        >>> weight = torch.ones(2, requires_grad=True)
        >>> weight.sum().backward()
        >>> torch.optim.SGD([weight], lr=0.1).zero_grad()
        >>> weight.grad is None
        True
        """
        parameters = list(chain.from_iterable([group["params"] for group in self.param_groups]))
        if not set_to_none:
            _zero([p._grad for p in parameters if p._grad is not None])
        elif modes.current().tracer is not None:
            for p in parameters:
                p.grad = None  # also where it is None already: a captured program must know where it starts
        else:  # the same without asking who looks on: a tenth of the price, and all or none
            run_all(map(SET_GRAD, parameters, repeat(None)))
        cleared(self, "zero_grad()")

    # --- parameter groups

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own, such as those of a layer that was frozen until now.

        >>> import pellucid as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
        >>> optimizer.add_param_group({"params": [torch.zeros(2)], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        names, params = _named(param_group["params"])
        self._check_params(params)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
        self._check_against_groups(names, params)
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for name, default in self.defaults.items():
            param_group.setdefault(name, default)
        self.param_groups.append(param_group)

    def _check_params(self, params: list[Any]) -> None:
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
            if not (self.defaults.get("differentiable") or param.is_leaf or param.retains_grad):
                assert param.node is not None
                raise ValueError(
                    explain(
                        "can't optimize a non-leaf Tensor",
                        str(here()),
                        f"it was computed by {param.node.name()} at {param.node.place}, and so it would be again",
                        "optimize the tensors it was computed from, or tensor.detach().requires_grad_()",
                    )
                )
        if len({id(param) for param in params}) != len(params):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information"
            )

    def _check_against_groups(self, names: list[str], params: list[Tensor]) -> None:
        """A parameter belongs to one group; either all groups have names or none."""
        if self.param_groups and ("param_names" in self.param_groups[0]) != bool(names):
            how = "with" if names else "without"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {how} names to the optimizer"
            )
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if not known.isdisjoint(id(param) for param in params):
            raise ValueError("some parameters appear in more than one parameter group")

    # --- saving and loading

    def state_dict(self) -> dict[str, Any]:
        """The state by the number of the parameter, and the groups with those numbers; the tensors are shared.

        >>> import pellucid as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1), torch.zeros(2)], lr=0.1, momentum=0.9)
        >>> optimizer.state_dict()["param_groups"][0]["params"]
        [0, 1]
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(numbers[id(key)] if isinstance(key, Tensor) else key): value for key, value in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take copies of the saved state and options; parameters are matched by their order in the groups.

        >>> import pellucid as torch
        >>> saved = torch.optim.SGD([torch.zeros(1)], lr=0.1).state_dict()
        >>> other = torch.optim.SGD([torch.ones(1)], lr=9.0)
        >>> other.load_state_dict(saved)
        >>> other.param_groups[0]["lr"]
        0.1
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        saved_groups = deepcopy(state_dict["param_groups"])
        self._check_saved(saved_groups)
        matched: dict[Any, Tensor] = {}
        for group, saved in zip(self.param_groups, saved_groups, strict=True):
            matched.update(zip(saved["params"], group["params"], strict=True))
            saved["params"] = group["params"]
            if "param_names" in group:
                saved.setdefault("param_names", group["param_names"])
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            known = matched.get(key)
            fitted = value if known is None else _fitted(known, value, "", iter(range(MOST_PARTS)))
            state[key if known is None else known] = fitted
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _check_saved(self, saved_groups: list[Group]) -> None:
        if len(saved_groups) != len(self.param_groups):
            raise ValueError(
                explain(
                    "loaded state dict has a different number of parameter groups",
                    str(here()),
                    f"{len(saved_groups)} were saved, this optimizer has {len(self.param_groups)}",
                )
            )
        for i, (group, saved) in enumerate(zip(self.param_groups, saved_groups, strict=True)):
            if len(group["params"]) != len(saved["params"]):
                raise ValueError(
                    explain(
                        "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
                        str(here()),
                        f"group {i}: {len(saved['params'])} parameters were saved, here are {len(group['params'])}",
                    )
                )

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take pickled or loaded state; options that were unknown when it was saved get their defaults."""
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._prepare()
        defaults = {**self.__dict__, **state}["defaults"]
        for group in state["param_groups"]:
            for name, default in defaults.items():
                group.setdefault(name, default)
        self.__dict__.update(state)  # at once, and last: Ctrl-C leaves all as it was, or all as it was saved

    # --- hooks

    def register_step_pre_hook(self, hook: Hook) -> Handle:
        """Call `hook(optimizer, args, kwargs)` before every step; it may return other (args, kwargs)."""
        return self._optimizer_step_pre_hooks.add(hook)

    def register_step_post_hook(self, hook: Hook) -> Handle:
        """Call `hook(optimizer, args, kwargs)` after every step.

        >>> import pellucid as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
        >>> _ = optimizer.register_step_post_hook(lambda optimizer, args, kwargs: print("stepped"))
        >>> optimizer.step()
        stepped
        """
        return self._optimizer_step_post_hooks.add(hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` before the state is collected."""
        return self._optimizer_state_dict_pre_hooks.add(hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` when the state is collected; it may return another dictionary."""
        return self._optimizer_state_dict_post_hooks.add(hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` before state is loaded; it may return another dictionary."""
        return self._optimizer_load_state_dict_pre_hooks.add(hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` after state is loaded."""
        return self._optimizer_load_state_dict_post_hooks.add(hook, prepend)

    def __repr__(self) -> str:
        groups = []
        for i, group in enumerate(self.param_groups):
            options = [f"    {name}: {group[name]}\n" for name in sorted(group) if name != "params"]
            groups.append(f"Parameter Group {i}\n" + "".join(options))
        return f"{type(self).__name__} (\n" + "\n".join(groups) + ")"


def register_optimizer_step_pre_hook(hook: Hook) -> Handle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer."""
    return BEFORE_EVERY_STEP.add(hook)


def register_optimizer_step_post_hook(hook: Hook) -> Handle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return AFTER_EVERY_STEP.add(hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's `step` that runs the hooks before and after."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
        if not (before or after or BEFORE_EVERY_STEP or AFTER_EVERY_STEP):
            return step(self, *args, **kwargs)
        every: tuple[Any, ...] = (self, *args)
        for hook in chain(BEFORE_EVERY_STEP.values(), before.values()):
            changed = hook(self, every, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
            every, kwargs = changed
        result = step(*every, **kwargs)
        for hook in chain(after.values(), AFTER_EVERY_STEP.values()):
            hook(self, every, kwargs)
        return result

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


def _zero(grads: list[Tensor]) -> None:
    """Fill gradients with zeros."""
    for grad in grads:
        if grad.node is not None:
            grad.detach_()

    def one_by_one() -> None:
        for grad in grads:
            grad.zero_()  # type: ignore[attr-defined]

    write_all(grads, lambda: copying(grads, [0] * len(grads), "zero_"), one_by_one)


def _named(params: Any) -> tuple[list[str], list[Any]]:
    """The names (none, if they have none) and the tensors of a group, whatever form it came in."""
    if isinstance(params, Tensor):
        return [], [params]
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    params = list(params)
    named = [isinstance(param, tuple) for param in params]
    if not any(named):
        return [], params
    if not all(named):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [name for name, _ in params], [param for _, param in params]


MOST_PARTS = 1_000_000  # of the state of one parameter: a list that holds another twice, and so on, has no end


def _fitted(param: Tensor, value: Any, key: Any, room: Iterator[int]) -> Any:
    """A copy of saved state in the dtype of its parameter, as deep as it goes; step counters keep their own."""
    if next(room, None) is None:
        why = "containers in it hold each other many times over, as no optimizer's state does"
        raise ValueError(explain(f"loaded state dict has more than {MOST_PARTS:,} parts for one parameter", "", why))
    if isinstance(value, Tensor):
        convert = key != "step" and param.is_floating_point()
        apart = value.detach()  # so that nothing is recorded
        return apart.to(param.dtype, copy=True) if convert else apart.clone()
    if isinstance(value, dict):
        return {name: _fitted(param, part, name, room) for name, part in value.items()}
    if isinstance(value, (list, tuple, set)):
        return type(value)(_fitted(param, part, key, room) for part in value)
    return deepcopy(value)


# --- what the optimizers share


def called(closure: Callable[[], Any] | None) -> Any:
    """The loss that a closure computes, with gradients recorded; None without a closure."""
    if closure is None:
        return None
    with modes.recording(True):
        return closure()


def tell_written(parameters: list[Tensor], name: str) -> None:
    """Tell the observers that parameters were changed, all but those that follow nothing besides the graph."""
    for observer in modes.current().observers:
        if not getattr(observer, "only_recording", False):
            for p in parameters:
                observer.write(p, name)


def counter(value: float = 0.0) -> Tensor:
    """A number that is kept as a tensor: PyTorch saves step counters so."""
    return wrap(np.asarray(value, np.float64 if get_default_dtype() is float64 else np.float32))
