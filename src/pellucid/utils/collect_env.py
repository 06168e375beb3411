"""torch.utils.collect_env: what a report of a problem should say about the machine."""

import os
import platform
import sys

import numpy as np

from pellucid._version import __version__

__all__ = ["get_pretty_env_info", "main"]


def get_pretty_env_info() -> str:
    """Versions and machine, one per line.

    >>> get_pretty_env_info().splitlines()[0].startswith("Pellucid version")
    True
    """
    facts = {
        "Pellucid version": __version__, "NumPy version": np.__version__, "Python version": sys.version.split()[0],
        "OS": platform.platform(), "CPU": platform.machine(), "Cores": os.cpu_count(), "Is CUDA available": False,
    }  # fmt: skip
    return "\n".join(f"{name}: {value}" for name, value in facts.items())


def main() -> None:
    """Print it."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
