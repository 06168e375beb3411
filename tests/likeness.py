"""What two libraries gave, compared: anything with tensors in it as Python numbers, equal up to rounding."""

from typing import Any

import pytest


def plain(value: Any) -> Any:
    """Anything with tensors in it as Python numbers, which the two libraries have in common."""
    if hasattr(value, "detach"):
        numbers = value.detach()
        return [str(value.dtype), (numbers.float() if "float16" in str(value.dtype) else numbers).tolist()]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def alike(mine: Any, its: Any, where: str, rel: float = 1e-5, abs: float = 1e-6) -> None:
    """Equal, numbers up to rounding."""
    if isinstance(its, dict):
        assert list(mine) == list(its), where
        mine, its = list(mine.values()), list(its.values())
    if isinstance(its, list):
        assert isinstance(mine, list) and len(mine) == len(its), f"{where}: {mine} and {its}"
        for i, (a, b) in enumerate(zip(mine, its, strict=True)):
            alike(a, b, f"{where} > {i}", rel, abs)
    elif isinstance(its, float):
        assert mine == pytest.approx(its, rel=rel, abs=abs, nan_ok=True), where
    else:
        assert mine == its, where
