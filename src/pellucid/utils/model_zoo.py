"""torch.utils.model_zoo, the old name of torch.hub's download."""

from importlib import import_module
from typing import Any

__all__ = ["load_url"]


def load_url(url: str, *args: Any, **kwargs: Any) -> Any:
    """Fetch a file of weights once, and load it."""
    return import_module("pellucid.hub").load_state_dict_from_url(url, *args, **kwargs)
