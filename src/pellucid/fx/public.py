"""The names that PyTorch prints for public functions: torch.relu, torch.nn.functional.silu, torch._C._nn.linear.

PyTorch has some functions elsewhere than where programs find them, and its graphs and generated programs say where.
"""

import inspect
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from pellucid.interop import subclasses
from pellucid.library import CustomOpDef
from pellucid.ops import construct, create, random, ranges
from pellucid.ops.operation import OPERATIONS, WRITERS

PREFIXED = {"torch.special": "torch._C._special.special_", "torch.linalg": "torch._C._linalg.linalg_",
            "torch.fft": "torch._C._fft.fft_"}  # fmt: skip
ELSEWHERE = {
    "torch._C._nn": "linear gelu softplus scaled_dot_product_attention avg_pool2d avg_pool3d one_hot softshrink",
    "torch": """
        adaptive_avg_pool1d avg_pool1d conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc
        pdist pairwise_distance cosine_similarity hardshrink pixel_shuffle pixel_unshuffle channel_shuffle
        native_channel_shuffle prelu bilinear""",
}
OF_FUNCTIONAL = """
    atleast_1d atleast_2d atleast_3d broadcast_tensors block_diag split einsum norm tensordot chain_matmul meshgrid
    cartesian_prod unique unique_consecutive stft lu cdist unravel_index
"""
NN = {name: home for home, names in ELSEWHERE.items() for name in names.split()}
MAKERS = [(module, name) for module in (create, random, ranges, construct) for name in module.__all__]
NOT_RECORDED = frozenset(("tensor", "as_tensor", "asarray", "manual_seed", "seed", "initial_seed"))


def functions() -> dict[FunctionType, str]:
    """The public functions that a trace records, and what PyTorch calls each.

    >>> import pellucid as torch
    >>> functions()[torch.nn.functional.linear], functions()[torch.exp], functions()[torch.zeros]
    ('torch._C._nn.linear', 'torch.exp', 'torch.zeros')
    """
    return _functions(len(OPERATIONS), bool(subclasses.ASKED))


@cache
def _functions(count: int, asked: bool) -> dict[FunctionType, str]:
    """By what can change: how many operations there are, and whether they were exchanged for others."""
    found: dict[FunctionType, str] = {}
    for operation in OPERATIONS.values():
        found.setdefault(operation.function, _printed(operation.module, operation.name))  # type: ignore[arg-type]
    for path, writer in WRITERS.items():
        found.setdefault(writer, path)  # type: ignore[arg-type]
    for module, name in MAKERS:
        made = getattr(module, name)
        made = subclasses.ASKED.get(made, made)
        if isinstance(made, FunctionType) and name not in NOT_RECORDED:
            found.setdefault(made, f"torch.{name}")
    return found


def _printed(module: str, name: str) -> str:
    if module in PREFIXED:
        return PREFIXED[module] + name
    if module == "torch.nn.functional":
        return f"{NN.get(name, module)}.{name}"
    if module == "torch" and name in OF_FUNCTIONAL.split():
        return f"torch.functional.{name}"
    return f"{module}.{name}"


def qualified_name(function: Callable[..., Any]) -> str:
    """The name of a function with its module, as PyTorch says it.

    >>> import math, operator
    >>> import pellucid as torch
    >>> qualified_name(torch.special.erfcx), qualified_name(math.sqrt), qualified_name(operator.add)
    ('torch._C._special.special_erfcx', 'math.sqrt', '_operator.add')
    """
    known = functions().get(function) if isinstance(function, FunctionType) else None
    if known is not None:
        return known
    if isinstance(function, CustomOpDef):
        return "torch.ops." + function._qualname.replace("::", ".")
    name = getattr(function, "__qualname__", getattr(function, "__name__", type(function).__name__))
    module = getattr(function, "__module__", None) or "builtins"
    if module in ("pellucid.symbolic", "pellucid.core.tensor"):
        return f"torch.{name}"
    return f"{in_torch(module)}.{name}"


def in_torch(module: str) -> str:
    """The name that a module of ours has in PyTorch."""
    return "torch" + module.removeprefix("pellucid") if module.split(".")[0] == "pellucid" else module


def as_written(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments of a call as PyTorch records them: of a function written in Python, all that it could have had.

    >>> import pellucid as torch
    >>> as_written(torch.nn.functional.relu, (1,), {})
    ((1,), {'inplace': False})
    """
    home = functions().get(function, "").rpartition(".")[0]  # type: ignore[call-overload]
    if home not in ("torch.nn.functional", "torch.functional"):
        return args, kwargs
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    kinds = {each.kind for each in signature.parameters.values()}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return args, kwargs
    bound.apply_defaults()
    optional = {key for key, each in signature.parameters.items() if each.default is not inspect.Parameter.empty}
    given = {key: value for key, value in bound.arguments.items() if key in optional}
    return tuple(value for key, value in bound.arguments.items() if key not in optional), given
