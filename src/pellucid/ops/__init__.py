"""The rows: every operation, defined once.

A row carries its forward, its derivative, its batching and its lowering; `publish` adds documentation, method
names and sample inputs for the generated tests. One topic per file; a new operation touches one file.
"""

import os
from importlib import import_module

# Every file of this folder is a topic: loading it publishes its operations.
for _file in sorted(os.listdir(os.path.dirname(__file__))):
    if _file.endswith(".py") and _file != "__init__.py":
        import_module(f"{__name__}.{_file[:-3]}")
