"""The rows: every operation, defined once.

A row carries its forward, its derivative, its batching and its lowering; `publish` adds documentation, method
names and sample inputs for the generated tests. One topic per file; a new operation touches one file.
"""

from importlib import import_module
from pathlib import Path

# Every file of this folder is a topic: loading it publishes its operations.
for _file in sorted(Path(__file__).parent.glob("*.py")):
    if _file.stem != "__init__":
        import_module(f"{__name__}.{_file.stem}")
