"""Digits without a download, as tensors and in characters."""

import pellucid as torch
from pellucid.utils.data.datasets import SIZE, digits


def make_digits(count: int, seed: int):
    """`count` pictures (count × 1 × 8 × 8, values from 0 to 1) and the digits that they show."""
    return digits(count, generator=torch.Generator().manual_seed(seed)).tensors


def show(pictures, shades: str = " .:*#") -> str:
    """Some pictures side by side, in characters."""
    levels = (pictures.view(-1, SIZE, SIZE) * (len(shades) - 0.01)).long().tolist()
    lines = ["   ".join("".join(shades[level] for level in picture[row]) for picture in levels) for row in range(SIZE)]
    return "\n".join(line.rstrip() for line in lines)
