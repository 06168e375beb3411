"""torch.utils.model_zoo, the old name of torch.hub's download."""

from importlib import import_module
from typing import Any

__all__ = ["load_url"]


def load_url(url: str, *args: Any, **kwargs: Any) -> Any:
    """Fetch a file of weights once, and load it."""
    return import_module("pellucid.hub").load_state_dict_from_url(url, *args, **kwargs)


class _Uncounted:
    """The bar of a download where tqdm is not installed: it goes through what it is given and shows nothing.

    >>> list(_Uncounted([1, 2], total=2))
    [1, 2]
    """

    def __init__(self, iterable: Any = (), **options: Any) -> None:
        self.iterable = iterable

    def __iter__(self) -> Any:
        return iter(self.iterable)

    def __enter__(self) -> "_Uncounted":
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing to tidy up."""

    def update(self, *args: Any, **options: Any) -> None:
        """Nothing is shown."""

    close = set_description = set_postfix = update


def __getattr__(name: str) -> Any:
    if name != "tqdm":  # torchvision takes it from here
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module("tqdm").tqdm
    except ImportError:
        return _Uncounted
