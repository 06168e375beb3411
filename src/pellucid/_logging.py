"""torch._logging: what scripts ask PyTorch's compiler to tell; here functions run as they are, and nothing is told."""

from typing import Any


def set_logs(*, modules: Any = None, **levels: Any) -> None:
    """Accepted.

    >>> set_logs(dynamo=10, graph_breaks=True)
    """
