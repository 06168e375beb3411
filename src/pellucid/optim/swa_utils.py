"""Averages of a model over its training: stochastic weight averaging and exponential moving averages."""

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from pellucid.core.inplace import copying, write_all
from pellucid.core.modes import apart, no_grad
from pellucid.core.tensor import Tensor
from pellucid.nn.modules.batchnorm import _BatchNorm
from pellucid.nn.modules.module import Module
from pellucid.ops.construct import tensor
from pellucid.optim.lr_scheduler import LRScheduler
from pellucid.optim.lr_scheduler.scheduler import for_each_group
from pellucid.optim.optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip

Average = Callable[[Any, Any, Any], Any]  # (averaged, current, how many were averaged) -> averaged
Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]  # the same for lists, in place


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential moving average of one parameter.

    >>> import pellucid as torch
    >>> get_ema_avg_fn(0.9)(torch.tensor(1.0), torch.tensor(2.0), 1)
    tensor(1.1000)
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """The plain average of one parameter.

    >>> import pellucid as torch
    >>> get_swa_avg_fn()(torch.tensor(1.0), torch.tensor(4.0), 2)
    tensor(2.)
    """

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """The exponential moving average of a list of parameters, in place."""
    return _OfLists(get_ema_avg_fn(decay), lambda _: 1 - decay)


def get_swa_multi_avg_fn() -> Averages:
    """The plain average of a list of parameters, in place."""
    return _OfLists(get_swa_avg_fn(), lambda num_averaged: 1 / (float(num_averaged) + 1))


def _check_decay(decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class _OfLists:
    """The averages of lists of tensors, all of them renewed or none."""

    def __init__(self, average: Average, weight: Callable[[Any], float]) -> None:
        self.average, self.weight = average, weight

    def __call__(self, averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        apart(self._renew, averaged, current, num_averaged)

    @no_grad()
    def _renew(self, averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        _write(averaged, self.values(averaged, current, num_averaged))

    def values(self, averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> list[Any]:
        """What the averages will be."""
        return [self.value(kept, new, num_averaged) for kept, new in zip(averaged, current, strict=True)]

    def value(self, kept: Any, new: Any, num_averaged: Any) -> Any:
        """What one average will be."""
        if kept.is_floating_point() or kept.is_complex():
            return kept.lerp(new.to(kept.dtype), self.weight(num_averaged))
        return self.average(kept, new, num_averaged)


def _write(targets: Sequence[Any], values: Sequence[Any]) -> None:
    """Write values into tensors: into all or none."""

    def one_by_one() -> None:
        for target, value in zip(targets, values, strict=True):
            target.copy_(value)

    read = [value for value in values if isinstance(value, Tensor)]
    write_all(targets, lambda: copying(targets, values, "copy_"), one_by_one, read)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's.

    >>> import pellucid as torch
    >>> model = torch.nn.Linear(1, 1)
    >>> averaged = torch.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     _ = torch.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    2.0
    """

    n_averaged: Any  # how often the average was renewed; a tensor, so that it is saved

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None, multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of the model into the average; the first time they are copied. All or nothing."""
        apart(self._take, model)

    @no_grad()
    def _take(self, model: Module) -> None:
        averaged, current = self._tensors(self.module), self._tensors(model)
        values = self._values(averaged, current)
        if not self.use_buffers:
            averaged += self.module.buffers()
            values += model.buffers()
        _write([*averaged, self.n_averaged], [*values, self.n_averaged + 1])

    def _values(self, averaged: list[Tensor], current: list[Tensor]) -> list[Any]:
        """What the averages will be."""
        if int(self.n_averaged) == 0:
            return list(current)
        if self.avg_fn is not None:
            return [self.avg_fn(kept, new, self.n_averaged) for kept, new in zip(averaged, current, strict=True)]
        renew = self.multi_avg_fn or get_swa_multi_avg_fn()
        if isinstance(renew, _OfLists):
            return renew.values(averaged, current, self.n_averaged)
        copies: list[Any] = [kept.clone() for kept in averaged]  # type: ignore[attr-defined]
        renew(copies, current, self.n_averaged)  # a function of the user's, which writes
        return copies

    def _tensors(self, model: Module) -> list[Tensor]:
        found = chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()
        return [each.detach() for each in found]


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the statistics of all batch normalisations anew, by one pass over the data.

    >>> import pellucid as torch
    >>> model = torch.nn.Sequential(torch.nn.BatchNorm1d(1))
    >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.0], [3.0]])], model)
    >>> model[0].running_mean
    tensor([2.])
    """
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    momenta, was_training = [layer.momentum for layer in layers], model.training
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # all batches weigh the same
        model.train()
        for batch in loader:
            batch = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(batch if device is None else batch.to(device))
    finally:  # Ctrl-C leaves unfinished statistics, but a model that goes on as it was told to
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """The learning rate goes to a constant value in `anneal_epochs` epochs, and stays there.

    >>> import pellucid as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    >>> scheduler = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        rates = for_each_group("swa_lr", optimizer, swa_lr)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_within_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._reached(step - 1), self._reached(step)
        return [
            group["swa_lr"] * now + _start(group["lr"], group["swa_lr"], before) * (1 - now)
            for group in self.optimizer.param_groups
        ]

    def _reached(self, step: int) -> float:
        """Which part of the way is done after some steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2


def _start(lr: Any, goal: Any, part: float) -> Any:
    """The rate that the way to the goal began with, when a part of it is done."""
    return goal if part == 1 else (lr - part * goal) / (1 - part)
