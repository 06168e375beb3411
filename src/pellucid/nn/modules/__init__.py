"""The layers, one topic per file, as torch.nn.modules has them."""

import os
from importlib import import_module

# Every file of this folder brings the classes that its __all__ names.
for _file in sorted(os.listdir(os.path.dirname(__file__))):
    if _file.endswith(".py") and _file not in ("__init__.py", "calls.py", "hooks.py", "state.py", "tree.py"):
        _module = import_module(f"{__name__}.{_file[:-3]}")
        globals().update({name: getattr(_module, name) for name in getattr(_module, "__all__", ())})
