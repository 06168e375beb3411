"""PyTorch's names of our classes and functions, which files carry; and what is ours by such a name."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

# What PyTorch keeps in another module than we do: a name that ends with a point stands for all modules in a folder.
ELSEWHERE = {
    "pellucid.core.function.": "torch.autograd.function", "pellucid.core.modes": "torch.autograd.grad_mode",
    "pellucid.distributions.transforms.": "torch.distributions.transforms", "pellucid.fx.codegen": "torch.fx.graph",
    "pellucid.nn.modules.multihead": "torch.nn.modules.activation", "pellucid.ops.storage": "torch.storage",
    "pellucid.ops.streams": "torch._C", "pellucid.optim._adafactor": "torch.optim",
    "pellucid.optim._muon": "torch.optim", "pellucid.optim.lr_scheduler.": "torch.optim.lr_scheduler",
}  # fmt: skip
INSIDE = ("pellucid.core.", "pellucid.dtypes.", "pellucid.ops.")  # folders that PyTorch has not: torch exports them
SEVERAL = {"OneHotCategoricalStraightThrough": "one_hot_categorical", "RelaxedOneHotCategorical": "relaxed_categorical"}


def home(thing: Any) -> str:
    """The module in which PyTorch has a class or function of ours; of anything else, its own.

    >>> import pellucid as torch
    >>> home(torch.Tensor), home(torch.nn.Linear), home(torch.nn.MultiheadAttention), home(dict)
    ('torch', 'torch.nn.modules.linear', 'torch.nn.modules.activation', 'builtins')
    """
    module = getattr(thing, "__module__", None) or ""
    if module.partition(".")[0] != "pellucid":
        return module
    found = ELSEWHERE.get(module) or ELSEWHERE.get(module.rpartition(".")[0] + ".")
    if found is None and module.startswith(INSIDE) and vars(sys.modules["pellucid"]).get(thing.__name__) is thing:
        return "torch"
    if found is None and module.startswith("pellucid.distributions."):
        return _file_of_its_own(thing.__name__, module)
    return found or "torch" + module.removeprefix("pellucid")


def _file_of_its_own(name: str, module: str) -> str:
    """The module of a distribution: torch.distributions.half_normal has HalfNormal."""
    for place, holder in sys.modules["pellucid.distributions"].PLACES.items():
        if holder.__name__ == module and (place.replace("_", "").lower() == name.lower() or SEVERAL.get(name) == place):
            return f"torch.distributions.{place}"
    return "torch" + module.removeprefix("pellucid")


def module_for(name: str) -> ModuleType:
    """Our module for one of PyTorch's.

    >>> module_for("torch.distributions.half_normal").__name__
    'pellucid.distributions.normal'
    """
    path = "pellucid" + name.removeprefix("torch")
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        above, _, last = path.rpartition(".")
        found = getattr(sys.modules.get(above), last, None)  # kept in another file, under a name of its folder
        if error.name is None or not path.startswith(error.name) or not isinstance(found, ModuleType):
            raise
        return found
