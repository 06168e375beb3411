"""torch.fx, which is not here: `pellucid.capture` is our way from a function to a program."""

from typing import Any

from pellucid.absent import absent


def wrap(fn_or_name: Any) -> Any:
    """What was given: a function that no tracer visits needs no protection from one.

    >>> wrap(len)([1, 2])
    2
    """
    return fn_or_name


NAMES = """
CodeGen Graph GraphModule Interpreter Node Proxy Tracer Transformer experimental graph has_side_effect node
passes proxy replace_pattern symbolic_trace
"""
__getattr__ = absent(
    "torch.fx",
    NAMES,
    "programs are not traced to fx graphs",
    "pellucid.capture(function, *inputs) gives a program to look at",
)
