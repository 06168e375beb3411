"""Settings of PyTorch that scripts make and that need nothing here: threads, precision, determinism, compile."""

import os
from collections.abc import Callable
from typing import Any

from pellucid.native import choose_hands

__all__ = [
    "are_deterministic_algorithms_enabled", "compile", "compiled_with_cxx11_abi", "cond",
    "get_deterministic_debug_mode", "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads",
    "has_cuda", "has_cudnn", "has_lapack", "has_mkl", "has_mkldnn", "has_mps", "has_openmp", "has_spectral",
    "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled", "set_deterministic_debug_mode",
    "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads", "set_num_threads",
    "set_warn_always", "use_deterministic_algorithms", "while_loop",
]  # fmt: skip

has_lapack = has_openmp = has_spectral = True  # what old scripts ask of the build
has_cuda = has_cudnn = has_mkl = has_mkldnn = has_mps = False

_SETTINGS: dict[str, Any] = {
    "threads": os.cpu_count() or 1, "interop": 1, "precision": "highest", "deterministic": False,
    "warn only": False, "warn always": False,
}  # fmt: skip


def set_num_threads(threads: int) -> None:
    """Let so many threads share a kernel; NumPy has threads of its own, see OPENBLAS_NUM_THREADS.

    >>> import pellucid as torch
    >>> before = torch.get_num_threads()
    >>> torch.set_num_threads(1)
    >>> torch.get_num_threads()
    1
    >>> torch.set_num_threads(before)
    """
    _check_threads("set_num_threads", threads)
    _SETTINGS["threads"] = threads
    choose_hands(threads)


def _check_threads(name: str, threads: Any) -> None:
    if not isinstance(threads, int) or threads <= 0:
        raise RuntimeError(f"{name} expects a positive integer, got {threads!r}")
    if threads >= 2**31:
        raise ValueError(f"{name}: {threads} does not fit into 32 bits")


def get_num_threads() -> int:
    """What was set, at first the number of cores."""
    return int(_SETTINGS["threads"])


def set_num_interop_threads(threads: int) -> None:
    """Remembered.

    >>> import pellucid as torch
    >>> torch.set_num_interop_threads(1)
    >>> torch.get_num_interop_threads()
    1
    """
    _check_threads("set_num_interop_threads", threads)
    _SETTINGS["interop"] = threads


def get_num_interop_threads() -> int:
    """What was set."""
    return int(_SETTINGS["interop"])


def set_float32_matmul_precision(precision: str) -> None:
    """Remembered: products of float32 are always computed in float32.

    >>> set_float32_matmul_precision("high")
    >>> get_float32_matmul_precision()
    'high'
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision} is not one of 'highest', 'high' or 'medium'")
    _SETTINGS["precision"] = precision


def get_float32_matmul_precision() -> str:
    """What was set."""
    return str(_SETTINGS["precision"])


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remembered: every operation here gives the same numbers every time.

    >>> import pellucid as torch
    >>> torch.use_deterministic_algorithms(True)
    >>> torch.are_deterministic_algorithms_enabled()
    True
    >>> torch.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"use_deterministic_algorithms(): argument '{name}' must be bool, not {type(value).__name__}"
            )
    _SETTINGS["deterministic"], _SETTINGS["warn only"] = mode, warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """What was set."""
    return bool(_SETTINGS["deterministic"])


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What was set."""
    return bool(_SETTINGS["warn only"])


DEBUG_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Remembered, like `use_deterministic_algorithms`.

    >>> import pellucid as torch
    >>> torch.set_deterministic_debug_mode("error")
    >>> torch.get_deterministic_debug_mode()
    2
    >>> torch.set_deterministic_debug_mode("default")
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    choices: Any = DEBUG_MODES if isinstance(debug_mode, str) else range(len(DEBUG_MODES))
    if debug_mode not in choices:
        raise RuntimeError(f"debug_mode must be one of {[*choices]}, but got {debug_mode!r}")
    level = choices.index(debug_mode)
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """0: nothing is asked for; 1: warnings; 2: errors."""
    return 0 if not _SETTINGS["deterministic"] else 1 if _SETTINGS["warn only"] else 2


def set_warn_always(b: bool, /) -> None:
    """Remembered: Python's own filters decide how often a warning is shown.

    >>> import pellucid as torch
    >>> torch.set_warn_always(True)
    >>> torch.is_warn_always_enabled()
    True
    >>> torch.set_warn_always(False)
    """
    _SETTINGS["warn always"] = b


def is_warn_always_enabled() -> bool:
    """What was set."""
    return bool(_SETTINGS["warn always"])


def compiled_with_cxx11_abi() -> bool:
    """True: nothing is compiled that could have the old one.

    >>> import pellucid as torch
    >>> torch.compiled_with_cxx11_abi()
    True
    """
    return True


def set_flush_denormal(mode: bool) -> bool:
    """False: not supported, as PyTorch says on some processors.

    >>> import pellucid as torch
    >>> torch.set_flush_denormal(True)
    False
    """
    return False


def compile(model: Any = None, **options: Any) -> Any:
    """The model itself, which runs in eager mode; without a model, a decorator.

    >>> compile(len)([1, 2])
    2
    """
    return (lambda function: function) if model is None else model


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """One of two functions of the operands, as a condition says.

    >>> cond(True, lambda x: x + 1, lambda x: x - 1, (1,))
    2
    """
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """Apply a function to values as long as a condition of them holds.

    >>> while_loop(lambda i: i < 3, lambda i: (i + 1,), (0,))
    (3,)
    """
    values = carried_inputs
    while bool(cond_fn(*values)):
        values = body_fn(*values)
    return values
