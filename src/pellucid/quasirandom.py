"""torch.quasirandom: points that fill a cube more evenly than random ones do."""

from typing import Any

import numpy as np
from scipy.stats import qmc

from pellucid import dtypes
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops import random

__all__ = ["SobolEngine"]


class SobolEngine:
    """Sobol's sequence in a unit cube, with the direction numbers of Joe and Kuo (2008); scrambled as PyTorch does.

    >>> import pellucid as torch
    >>> engine = torch.quasirandom.SobolEngine(dimension=2)
    >>> engine.draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self._directions = qmc.Sobol(dimension, scramble=False, bits=self.MAXBIT)._sv.astype(np.int64)
        self._first = np.zeros(dimension, np.int64)
        if scramble:
            self._scramble()
        self.num_generated, self._point = 0, self._first

    def _scramble(self) -> None:
        """Mix the bits of the directions by random triangular matrices, and shift the first point at random."""
        generator = None if self.seed is None else random.Generator().manual_seed(self.seed)
        bits, size = self.MAXBIT, self.dimension
        weights = 1 << np.arange(bits)
        self._first = random.randint(2, (size, bits), generator=generator).numpy() @ weights
        drawn = random.randint(2, (size, bits, bits), generator=generator).numpy()
        matrices = np.tril(drawn, -1) + np.eye(bits, dtype=np.int64)
        highest_first = weights[::-1]
        taken = (self._directions[..., None] & highest_first) != 0
        self._directions = ((taken @ matrices.mT) % 2) @ highest_first

    def _advance(self, n: int) -> np.ndarray:
        """The next n points after the current one: each differs in one direction, that of the lowest zero bit."""
        numbers = np.arange(self.num_generated, self.num_generated + n)
        lowest_zero = np.log2((numbers + 1) & -(numbers + 1)).astype(int)
        steps = np.vstack([self._point, self._directions.T[lowest_zero]])
        return np.bitwise_xor.accumulate(steps)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points, one to a row."""
        points = self._advance(n)
        self.num_generated, self._point = self.num_generated + n, points[-1]
        kind = dtypes.as_numpy_dtype(dtypes.get_default_dtype() if dtype is None else dtype)
        drawn = wrap((points[:-1] * 2.0**-self.MAXBIT).astype(kind))
        if out is None:
            return drawn
        return out.resize_(drawn.shape).copy_(drawn)  # type: ignore[attr-defined, no-any-return]

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2 to the m points: together with those before they must be a power of two to stay balanced."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points "
                f"have been previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do "
                "this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> "SobolEngine":
        """Begin anew."""
        self.num_generated, self._point = 0, self._first
        return self

    def fast_forward(self, n: int) -> "SobolEngine":
        """Leave n points out."""
        self._point = self._advance(n)[-1]
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"
