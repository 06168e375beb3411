"""The layers, one topic per file, as torch.nn.modules has them."""

import os
from importlib import import_module

_INNER = ("__init__.py", "calls.py", "hooks.py", "members.py", "state.py", "tree.py", "utils.py")

__all__: list[str] = []  # the classes that the files of this folder name in theirs
for _file in sorted(os.listdir(os.path.dirname(__file__))):
    if _file.endswith(".py") and _file not in _INNER:
        _module = import_module(f"{__name__}.{_file[:-3]}")
        globals().update({name: getattr(_module, name) for name in _module.__all__})
        __all__ += _module.__all__
