"""Optimizers, as torch.optim has them.

>>> import pellucid as torch
>>> weight = torch.tensor([1.0], requires_grad=True)
>>> optimizer = torch.optim.SGD([weight], lr=0.25)
>>> for _ in range(3):
...     optimizer.zero_grad()
...     loss = (weight * weight).sum()
...     loss.backward()
...     optimizer.step()
>>> weight
tensor([0.1250], requires_grad=True)
"""

from importlib import import_module
from typing import Any

from pellucid.optim import lr_scheduler
from pellucid.optim._adafactor import Adafactor
from pellucid.optim._muon import Muon
from pellucid.optim._stateless import swap_in_optimizer_params_and_state
from pellucid.optim.adadelta import Adadelta
from pellucid.optim.adagrad import Adagrad
from pellucid.optim.adam import Adam
from pellucid.optim.adamax import Adamax
from pellucid.optim.adamw import AdamW
from pellucid.optim.asgd import ASGD
from pellucid.optim.lbfgs import LBFGS
from pellucid.optim.nadam import NAdam
from pellucid.optim.optimizer import Optimizer
from pellucid.optim.radam import RAdam
from pellucid.optim.rmsprop import RMSprop
from pellucid.optim.rprop import Rprop
from pellucid.optim.sgd import SGD
from pellucid.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils", "swap_in_optimizer_params_and_state",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "swa_utils":  # loaded when asked for, as it brings the whole of nn
        return import_module("pellucid.optim.swa_utils")
    raise AttributeError(f"module 'pellucid.optim' has no attribute {name!r}")
