"""The rows: every operation, defined once.

A row carries its forward, its derivative, its batching and its lowering; `publish` adds documentation, method
names and sample inputs for the generated tests. One topic per file; a new operation touches one file.

The files of this folder are loaded with the package. A folder in it is a family (linear algebra, Fourier transforms,
...) that is loaded when one of its names is first asked for, so that `import pellucid` stays quick.
"""

import os
from importlib import import_module
from typing import Any

from pellucid.core.tensor import Operators


def load_topics(package: str, folder: str) -> None:
    """Import every file of a folder: loading a topic publishes its operations."""
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py") and file != "__init__.py":
            import_module(f"{package}.{file[:-3]}")


load_topics(__name__, os.path.dirname(__file__))

FAMILIES = ("fft", "linalg", "nn", "rare", "special")


def load_families() -> None:
    """Load what `import pellucid` leaves for later."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")


def late_method(tensor: Any, name: str) -> Any:
    """A method that a family brings: reached only when a tensor has no attribute of that name yet."""
    if not name.startswith("_"):
        load_families()
        if hasattr(Operators, name):
            return getattr(tensor, name)
    raise AttributeError(f"{type(tensor).__name__!r} object has no attribute {name!r}", name=name, obj=tensor)


Operators.__getattr__ = late_method  # type: ignore[attr-defined]
