"""torch._dynamo, as far as scripts set it up: functions run as they are, and nothing is compiled behind them."""

from typing import Any

from pellucid._dynamo import config
from pellucid.compiler.control import allow_in_graph, disable, is_compiling, list_backends, reset
from pellucid.switches import compile

__all__ = [
    "allow_in_graph", "config", "disable", "graph_break", "is_compiling", "list_backends", "mark_dynamic", "optimize",
    "reset",
]  # fmt: skip


def optimize(*args: Any, **kwargs: Any) -> Any:
    """A decorator that gives the function back.

    >>> optimize("inductor")(len)([1, 2])
    2
    """
    return compile()


def graph_break() -> None:
    """Nothing: there is no graph to break."""


def mark_dynamic(*args: Any, **kwargs: Any) -> None:
    """Nothing: no shape is ever taken for fixed."""


mark_static = maybe_mark_dynamic = mark_dynamic
