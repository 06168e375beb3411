"""LRScheduler: changes the learning rates of an optimizer from epoch to epoch."""

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pellucid.core.commit import Call, undoing
from pellucid.core.inplace import as_they_are
from pellucid.core.modes import apart, recording
from pellucid.core.provenance import warn
from pellucid.core.tensor import Tensor
from pellucid.optim.optimizer import Group, Optimizer

ORDER = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available."
)


def all_or_nothing(step: Callable[..., Any]) -> Callable[..., Any]:
    """A scheduler's `step` that leaves scheduler and learning rates as they were if it does not come to its end."""

    @functools.wraps(step)
    def whole(self: "LRScheduler", *args: Any, **kwargs: Any) -> Any:
        undo = undoing(self._as_it_is())
        try:
            return step(self, *args, **kwargs)
        except BaseException:
            undo()
            raise

    return whole


class LRScheduler:
    """The base of all schedulers: write `get_lr`, which gives the learning rate of every group at `last_epoch`.

    >>> import pellucid as torch
    >>> class Halving(torch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr * 0.5**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=8.0)
    >>> scheduler = Halving(optimizer)
    >>> for epoch in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [1.0]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _last_lr: list[Any]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0: load the optimizer's state_dict before the scheduler is made, or set it"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        notice_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the learning rates that the schedule begins with."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    # --- the schedule

    def get_last_lr(self) -> list[Any]:
        """The learning rates of the groups as the scheduler last set them."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The learning rates of the groups at `last_epoch`; every scheduler writes its own."""
        raise NotImplementedError(f"{type(self).__name__} is missing its get_lr()")

    @all_or_nothing
    def step(self, epoch: int | None = None) -> None:
        """Go one epoch on and set the learning rates; to be called after `optimizer.step()`."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING)
        self._update_lr(epoch)

    def _as_it_is(self) -> list[Call]:
        """The calls that make the scheduler and the options of its optimizer what they are now."""
        calls: list[Call] = []
        parts: list[dict[str, Any]] = [each.__dict__ for each in (self, *self._callables())]
        for kept in parts + self.optimizer.param_groups:
            calls += [(kept.clear,), (kept.update, kept.copy())]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return calls + as_they_are([lr for lr in rates if isinstance(lr, Tensor)])

    def _callables(self) -> list[Any]:
        """The user's objects that the schedule calls: their attributes are saved and loaded with it."""
        return []

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                f"Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {ORDER}"
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to "
                f"do this will result in PyTorch skipping the first value of the learning rate schedule. {ORDER}"
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._within_step():
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                values = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        self._set(values)

    def _set(self, values: list[Any]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_value(group, "lr", value)
        self._last_lr = values_of(self.optimizer, "lr")

    @contextmanager
    def _within_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _check_within_step(self) -> None:
        """A schedule that goes on from the current rates gives nonsense when it is asked between two steps."""
        if not self._get_lr_called_within_step:
            warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.")

    # --- saving and loading

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer.

        >>> import pellucid as torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=8.0)
        >>> torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9).state_dict()["last_epoch"]
        0
        """
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    @all_or_nothing
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state; the optimizer's own state is loaded apart, after this."""
        self.__dict__.update(state_dict)


class _LRScheduler(LRScheduler):
    """The name to inherit from until PyTorch 2.0.

    >>> issubclass(_LRScheduler, LRScheduler)
    True
    """


class Multiplied(LRScheduler):
    """A schedule that multiplies the current rates by a factor, so that several can act one after the other."""

    def _multiplier(self) -> float:
        """What the rates are multiplied by at `last_epoch`."""
        raise NotImplementedError

    def _multiplier_from_base(self) -> float:
        """What the first rates would be multiplied by to come to `last_epoch` at once."""
        raise NotImplementedError

    def get_lr(self) -> list[Any]:
        self._check_within_step()
        factor = self._multiplier()
        values = values_of(self.optimizer, "lr")
        return values if factor == 1 else [lr * factor for lr in values]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self._multiplier_from_base()
        return [lr * factor for lr in self.base_lrs]


# --- the values in an optimizer's groups


def values_of(optimizer: Optimizer, name: str) -> list[Any]:
    """An option of every group; tensors are copied, as they are changed in place."""
    return [_copied(group[name]) for group in optimizer.param_groups]


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def set_value(group: Group, name: str, value: Any) -> None:
    """Set an option of a group; a tensor stays the same tensor."""
    if isinstance(group[name], Tensor):
        apart(_fill, group[name], float(value))
    else:
        group[name] = value


def _fill(option: Any, value: float) -> None:
    with recording(False):
        option.fill_(value)


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per group, of one for all or of a list of them, in copies: the caller may go on with his tensors."""
    groups = optimizer.param_groups
    if not isinstance(value, (list, tuple)):
        return [_copied(value) for _ in groups]
    if len(value) != len(groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {len(groups)}."
        )
    return [_copied(each) for each in value]


def notice_steps(optimizer: Optimizer) -> None:
    """Let an optimizer remember that it has stepped, so that a wrong order of steps can be told."""
    bound: Any = optimizer.step
    if hasattr(bound, "_wrapped_by_lr_sched"):
        return
    function = getattr(bound, "__func__", lambda _, *args, **kwargs: bound(*args, **kwargs))
    alive = weakref.ref(optimizer)  # the optimizer will hold the function, which must not hold the optimizer

    @functools.wraps(function)
    def noticed(*args: Any, **kwargs: Any) -> Any:
        owner: Any = alive()
        owner._opt_called = True
        return function(owner, *args, **kwargs)

    noticed._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = noticed  # type: ignore[method-assign]
