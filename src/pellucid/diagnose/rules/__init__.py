"""The doctor's rules: one file per code, with its evidence, its message, its documentation and its example programs."""

import importlib
import pkgutil

from pellucid.diagnose.rules.rule import Rule

__all__ = ["Rule", "all_rules"]


def all_rules() -> list[type[Rule]]:
    """Every rule there is: a new file in this folder is found by itself.

    >>> len({rule.code for rule in all_rules()}) == len(all_rules())
    True
    """
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(Rule.__subclasses__(), key=lambda rule: rule.code)
