"""Pellucid under the name torch: inside `as_torch()` and `pellucid run`, `import torch` finds Pellucid.

`torch` is then a module whose attributes are Pellucid's and which tells PyTorch's version; `torch.nn`,
`torch.utils.data` and all the rest are Pellucid's modules themselves.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import runpy
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pellucid
from pellucid import version
from pellucid.absent import absent_module
from pellucid.core.homes import shown_as_torch
from pellucid.core.provenance import here
from pellucid.torch_version import TorchVersion

VERSION = TorchVersion("2.13.0+pellucid")
UNWATCHED: AbstractContextManager[Any] = nullcontext()


class Torch(types.ModuleType):
    """The module `torch` of a run: it asks Pellucid for everything, once."""

    def __init__(self) -> None:
        super().__init__("torch", pellucid.__doc__)
        self.__version__ = VERSION
        self.__path__: list[str] = []
        self.__file__ = pellucid.__file__
        self.torch = self  # PyTorch has it by accident, and some programs write torch.torch
        self.version = types.ModuleType("torch.version", "PyTorch's version, which is the one that scripts ask for.")
        self.version.__dict__.update({**vars(version), "__name__": "torch.version", "__version__": str(VERSION)})

    def __getattr__(self, name: str) -> Any:
        try:
            value = getattr(pellucid, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            raise AttributeError(missing(f"torch.{name}"), name=name, obj=self) from None
        setattr(self, name, value)  # next time without this detour
        return value

    def __dir__(self) -> list[str]:
        return sorted({*dir(pellucid), *self.__dict__})


def missing(path: str) -> str:
    """What to say when a script uses something that is not there."""
    return f"Pellucid has no {path}\n  where: {here()}"


# Modules of other packages that take PyTorch's tensors apart: ours do the same for Pellucid's.
BESIDE = {"functorch": "pellucid.functorch", "safetensors.torch": "pellucid.serialization.safetensors"}


# What only several processes need: programs import it at their head, and use it when torchrun starts them.
BEYOND = "torch.distributed."
WHY = "Pellucid trains in one process", "start the program without torchrun"


def ours(name: str) -> bool:
    """Whether a module of that name is Pellucid's inside a run."""
    return name == "torch" or name.startswith("torch.") or name in BESIDE


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `torch` and everything in it among Pellucid's modules."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not ours(fullname):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if spec.name == "torch":
            return Torch()
        if spec.name == "torch.version":
            return sys.modules["torch"].version  # type: ignore[no-any-return]
        path = BESIDE.get(spec.name) or f"pellucid{spec.name.removeprefix('torch')}"
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name is None or not path.startswith(error.name):
                raise
            found = self.kept_elsewhere(path) or self.beyond(spec.name)
            if found is None:
                raise ModuleNotFoundError(missing(spec.name), name=spec.name) from None
            module = found
        self.specs[spec.name] = module.__spec__
        return module

    def kept_elsewhere(self, path: str) -> types.ModuleType | None:
        """What PyTorch has in a file of its own and we in another: `torch.distributions.normal`, for one."""
        above, _, name = path.rpartition(".")
        found = getattr(sys.modules.get(above), name, None)
        return found if isinstance(found, types.ModuleType) else None

    def beyond(self, name: str) -> types.ModuleType | None:
        """A module whose names can be imported and inherited from, and refuse to be called."""
        return absent_module(name, *WHY) if name.startswith(BEYOND) else None

    def exec_module(self, module: types.ModuleType) -> None:
        """The module has run already; importing it under another name must not change what it says of itself."""
        for name, original in self.specs.items():
            if original is not None and original.name == module.__name__ and name.startswith("torch."):
                module.__spec__ = original

    def __init__(self) -> None:
        self.specs: dict[str, Any] = {}


@contextmanager
def as_torch() -> Iterator[types.ModuleType]:
    """Inside the block `import torch` gives Pellucid; afterwards everything is as it was.

    >>> with as_torch() as torch:
    ...     from torch.nn import Linear
    >>> torch.__version__
    '2.13.0+pellucid'
    >>> Linear.__module__
    'pellucid.nn.modules.linear'
    """
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if ours(name)}
    finder = Finder()
    sys.meta_path.insert(0, finder)
    try:
        with shown_as_torch():
            yield importlib.import_module("torch")
    finally:
        if not sys.is_finalizing():  # after a block that lasts as long as the program there are no imports to mend
            _put_back(finder, hidden)


def _put_back(finder: Finder, hidden: dict[str, types.ModuleType]) -> None:
    """Let `import torch` find what it found before."""
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if ours(name)]:
        del sys.modules[name]
    sys.modules.update(hidden)
    for name in BESIDE:  # the package keeps its modules as attributes, too
        above, _, part = name.rpartition(".")
        package = sys.modules.get(above)
        if package is not None:
            vars(package).pop(part, None)
            if name in hidden:
                setattr(package, part, hidden[name])


def run_script(path: str, arguments: Sequence[str], watched: AbstractContextManager[Any] = UNWATCHED) -> int:
    """Run a PyTorch script as its own program: `sys.argv`, `__main__` and the import path are what it expects.

    An exception that leaves the script is printed without the frames that only start it; returns the exit status.
    What watches the run, the doctor for one, is entered around the script alone.
    """
    before = sys.argv, list(sys.path)
    with as_torch():
        sys.argv = [path, *arguments]
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        try:
            with watched:
                runpy.run_path(path, run_name="__main__")
        except Exception as error:
            traceback.print_exception(type(error), error, _of_script(error.__traceback__))
            return 1
        finally:
            sys.argv, sys.path[:] = before
    return 0


def _of_script(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback from the script's own first frame on; None if the script did not begin to run."""
    while trace is not None and trace.tb_frame.f_code.co_filename in STARTING:
        trace = trace.tb_next
    return trace


STARTING = (__file__, runpy.__file__, "<frozen runpy>")
