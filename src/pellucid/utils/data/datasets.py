"""Small data sets without a download: handwritten-like digits, two moons, a short book.

>>> import pellucid as torch
>>> from pellucid.utils.data import DataLoader
>>> loader = DataLoader(moons(100), batch_size=20)
>>> [batch.shape for batch in next(iter(loader))]
[torch.Size([20, 2]), torch.Size([20])]
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from math import pi
from typing import Any, Literal

from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.errors import explain
from pellucid.ops.construct import as_tensor, tensor
from pellucid.ops.create import zeros
from pellucid.ops.join import cat, stack
from pellucid.ops.random import rand, randint, randn, randperm
from pellucid.ops.ranges import linspace
from pellucid.utils.data.dataset import Dataset, TensorDataset

__all__ = ["Text", "digits", "moons", "text"]

# --- digits

GLYPHS = """
.###.  ..#..  .###.  ####.  ...#.  #####  .###.  #####  .###.  .###.
#...#  .##..  #...#  ....#  ..##.  #....  #....  ....#  #...#  #...#
#...#  ..#..  ....#  ....#  .#.#.  ####.  #....  ...#.  #...#  #...#
#...#  ..#..  ..##.  .###.  #..#.  ....#  ####.  ...#.  .###.  .####
#...#  ..#..  .#...  ....#  #####  ....#  #...#  ..#..  #...#  ....#
#...#  ..#..  #....  ....#  ...#.  #...#  #...#  ..#..  #...#  ....#
.###.  .###.  #####  ####.  ...#.  .###.  .###.  ..#..  .###.  .###.
"""
SIZE = 8
NOISE = 0.12


def digits(
    count: int = 1797, *, generator: Any = None, source: Literal["generated", "scikit-learn"] = "generated"
) -> TensorDataset:
    """Pictures of digits (count × 1 × 8 × 8, values from 0 to 1) and the digits that they show.

    A generated picture is a glyph of 5 × 7 pixels at one of the 2 × 4 places where it fits, its ink of any strength,
    blurred a little to one side, under noise; `generator` makes them repeatable. `source="scikit-learn"` gives the
    first ones of the 1797 that people wrote; scikit-learn must be installed.

    >>> import pellucid as torch
    >>> data = digits(3, generator=torch.Generator().manual_seed(0))
    >>> [tensor.shape for tensor in data.tensors], data[0][1]
    ([torch.Size([3, 1, 8, 8]), torch.Size([3])], tensor(4))
    """
    if source == "scikit-learn":
        if count > 1797:
            raise ValueError(f"there are 1797 written digits, not {count}; source='generated' makes any number")
        return _written_digits(count)
    if source != "generated":
        raise ValueError(f"source must be 'generated' or 'scikit-learn', not {source!r}")
    labels = randint(0, 10, (count,), generator=generator)
    tops = randint(0, SIZE - 6, (count,), generator=generator).tolist()
    lefts = randint(0, SIZE - 4, (count,), generator=generator).tolist()
    ink: Any = rand(count, 1, 1, generator=generator)
    drawn = glyphs()[labels] * (0.5 + 0.5 * ink)
    pictures: Any = zeros(count, SIZE, SIZE)
    for number, (top, left) in enumerate(zip(tops, lefts)):
        pictures[number, top : top + 7, left : left + 5] = drawn[number]
    blur: Any = rand(count, 1, 1, generator=generator)
    noise: Any = randn(count, SIZE, SIZE, generator=generator)
    pictures = (1 - 0.5 * blur) * pictures + 0.5 * blur * pictures.roll(1, 2) + NOISE * noise
    return TensorDataset(pictures.clamp(0, 1).view(count, 1, SIZE, SIZE), labels)


def glyphs() -> Any:
    """The ten templates, 10 × 7 × 5, ink 1 on paper 0."""
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    return tensor([[[float(pixel == "#") for pixel in row[digit]] for row in rows] for digit in range(10)])


def _written_digits(count: int) -> TensorDataset:
    try:
        data = import_module("sklearn.datasets").load_digits()
    except ImportError:
        raise ImportError(
            explain(
                "digits(source='scikit-learn') needs scikit-learn, which is not installed",
                here().text,
                try_="pip install scikit-learn, or take the generated ones: digits()",
            )
        ) from None
    pictures = as_tensor(data.images[:count].astype("float32") / 16)
    return TensorDataset(pictures.unsqueeze(1), as_tensor(data.target[:count].astype("int64")))


# --- moons


def moons(n: int = 200, noise: float = 0.1, generator: Any = None) -> TensorDataset:
    """Points of two half circles that reach into each other, in random order, and which of the two each is of.

    >>> points, labels = moons(6, noise=0.0).tensors
    >>> points.shape, sorted(labels.tolist())
    (torch.Size([6, 2]), [0, 0, 0, 1, 1, 1])
    """
    outer: Any = linspace(0, pi, n - n // 2)
    inner: Any = linspace(0, pi, n // 2)
    upper = stack([outer.cos(), outer.sin()], 1)
    lower = stack([1 - inner.cos(), 0.5 - inner.sin()], 1)
    blur: Any = randn(n, 2, generator=generator)
    order: Any = randperm(n, generator=generator)
    return TensorDataset((cat([upper, lower]) + noise * blur)[order], (order >= len(outer)).long())


# --- text


class Text(Dataset):
    """A text as numbers, one for each different character.

    An item is a stretch of `context` numbers and, for each of these, the one that follows.

    >>> book = Text("abacab", context=3)
    >>> book.characters, book.encode("cab"), book.decode([0, 1])
    (['a', 'b', 'c'], [2, 0, 1], 'ab')
    >>> len(book), book[0]
    (3, (tensor([0, 1, 0]), tensor([1, 0, 2])))
    """

    def __init__(self, text: str, context: int = 64) -> None:
        self.text, self.context = text, context
        self.characters = sorted(set(text))
        self._numbers = {character: number for number, character in enumerate(self.characters)}
        self.tokens = tensor(self.encode(text))

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's characters."""
        return [self._numbers[character] for character in text]

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of some numbers."""
        return "".join(self.characters[number] for number in numbers)

    def __len__(self) -> int:
        return max(0, len(self.text) - self.context)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        start = range(len(self))[place]
        span: Any = self.tokens[start : start + self.context + 1]  # type: ignore[index]
        return span[:-1], span[1:]


def text(context: int = 64) -> Text:
    """A short book of a lighthouse, written for Pellucid: some 93,000 characters, one line is one paragraph.

    >>> book = text()
    >>> len(book.text), len(book.characters), book.text[:21]
    (92958, 58, 'THE BOOK OF THE LIGHT')
    """
    source = files("pellucid.utils.data").joinpath("lighthouse.txt").read_text(encoding="utf-8")
    paragraphs = [paragraph.replace("\n", " ").strip() for paragraph in source.split("\n\n")]
    return Text("\n".join(paragraphs), context)
