"""Digits without a download: ten glyphs of 5 × 7 pixels, each picture moved, shaded and blurred by chance."""

import pellucid as torch

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


def glyphs():
    """The ten templates, 10 × 7 × 5, ink 1 on paper 0."""
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    return torch.tensor([[[float(pixel == "#") for pixel in row[digit]] for row in rows] for digit in range(10)])


def make_digits(count: int, seed: int):
    """`count` pictures (count × 1 × 8 × 8, values from 0 to 1) and the digits that they show.

    A picture is a glyph at one of the 2 × 4 places where it fits, its ink of any strength, blurred a little to one
    side, under noise.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=generator)
    tops = torch.randint(0, SIZE - 6, (count,), generator=generator).tolist()
    lefts = torch.randint(0, SIZE - 4, (count,), generator=generator).tolist()
    ink = 0.5 + 0.5 * torch.rand(count, 1, 1, generator=generator)
    drawn = glyphs()[labels] * ink
    pictures = torch.zeros(count, SIZE, SIZE)
    for number, (top, left) in enumerate(zip(tops, lefts)):
        pictures[number, top : top + 7, left : left + 5] = drawn[number]
    blur = 0.5 * torch.rand(count, 1, 1, generator=generator)
    pictures = (1 - blur) * pictures + blur * torch.roll(pictures, 1, 2)
    pictures = pictures + NOISE * torch.randn(count, SIZE, SIZE, generator=generator)
    return pictures.clamp(0, 1).view(count, 1, SIZE, SIZE), labels


def show(pictures, shades: str = " .:*#") -> str:
    """Some pictures side by side, in characters."""
    levels = (pictures.view(-1, SIZE, SIZE) * (len(shades) - 0.01)).long().tolist()
    lines = ["   ".join("".join(shades[level] for level in picture[row]) for picture in levels) for row in range(SIZE)]
    return "\n".join(line.rstrip() for line in lines)
