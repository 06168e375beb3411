"""Matrix products on one core, for kernels to call: ours where the processor has vectors of 512 bits, else the BLAS's.

OpenBLAS packs both matrices before it multiplies, which counts for small ones, and it may not know the processor, or be
told to take it for another. docs/decisions/0008 has the figures.
"""

from functools import lru_cache

from pellucid.native import blas, vectors
from pellucid.native.language import Writer
from pellucid.native.vectors import packed, tile, turned
from pellucid.native.words import Array, least, most

DEPTH = 256  # steps of a sum at a time: so deep a panel of two vectors (32 KB) stays in the first cache
# Rows of tiles: 12 leave registers for the panel, the others are for the rows that remain.
tile_12, tile_8, tile_4, tile_2, tile_1 = (tile(height) for height in (12, 8, 4, 2, 1))
narrow_12, narrow_4, narrow_1 = (tile(height, 1) for height in (12, 4, 1))


def wide_tiles(
    m: int, depth: int, width: int, alpha: float, a: Array, begin: int, down: int, along: int, panel: Array,
    beta: float, c: Array, to: int, c_step: int,
) -> None:  # fmt: skip
    """All rows of a with a panel of two vectors."""
    i = m - m % 12
    for row in range(0, i, 12):
        tile_12(depth, width, alpha, a, begin + row * down, down, along, panel, beta, c, to + row * c_step, c_step)
    if m - i >= 8:
        tile_8(depth, width, alpha, a, begin + i * down, down, along, panel, beta, c, to + i * c_step, c_step)
        i = i + 8
    if m - i >= 4:
        tile_4(depth, width, alpha, a, begin + i * down, down, along, panel, beta, c, to + i * c_step, c_step)
        i = i + 4
    if m - i >= 2:
        tile_2(depth, width, alpha, a, begin + i * down, down, along, panel, beta, c, to + i * c_step, c_step)
        i = i + 2
    if m - i >= 1:
        tile_1(depth, width, alpha, a, begin + i * down, down, along, panel, beta, c, to + i * c_step, c_step)


def narrow_tiles(
    m: int, depth: int, width: int, alpha: float, a: Array, begin: int, down: int, along: int, panel: Array,
    beta: float, c: Array, to: int, c_step: int,
) -> None:  # fmt: skip
    """All rows of a with the first vectors of a panel."""
    twelves = m - m % 12
    for row in range(0, twelves, 12):
        narrow_12(depth, width, alpha, a, begin + row * down, down, along, panel, beta, c, to + row * c_step, c_step)
    fours = m - m % 4
    for row in range(twelves, fours, 4):
        narrow_4(depth, width, alpha, a, begin + row * down, down, along, panel, beta, c, to + row * c_step, c_step)
    for row in range(fours, m):
        narrow_1(depth, width, alpha, a, begin + row * down, down, along, panel, beta, c, to + row * c_step, c_step)


def multiply(
    across_a: int, across_b: int, m: int, n: int, k: int, alpha: float, a: Array, a_step: int, b: Array, b_step: int,
    beta: float, c: Array, c_step: int, panel: Array, wide: int,
) -> None:  # fmt: skip
    """`c ← alpha a b + beta c`: for each panel of b, all rows of a in tiles."""
    down = 1 if across_a else a_step
    along = a_step if across_a else 1
    for p in range(0, most(k, 1), DEPTH):
        depth = least(DEPTH, k - p)
        keep = beta if p == 0 else 1.0
        for j in range(0, n, wide):
            width = least(wide, n - j)
            if across_b:
                turned(depth, width, b, j * b_step + p, b_step, panel)
            else:
                packed(depth, width, b, p * b_step + j, b_step, panel)
            if width + width > wide:
                wide_tiles(m, depth, width, alpha, a, p * along, down, along, panel, keep, c, j, c_step)
            else:
                narrow_tiles(m, depth, width, alpha, a, p * along, down, along, panel, keep, c, j, c_step)


def assembly(name: str, floating: str) -> str:
    """The product under a name, with the parameters of a BLAS's for matrices in rows."""
    wide = 2 * vectors.LANES[floating]
    return f"""
{Writer(floating, address).kernel(f"{name}_loops", multiply)}
define void @{name}(
  i32 %order, i32 %turned_a, i32 %turned_b, i64 %m, i64 %n, i64 %k, {floating} %alpha, ptr %a, i64 %a_step,
  ptr %b, i64 %b_step, {floating} %beta, ptr %c, i64 %c_step
) {{
  %panel = alloca [{DEPTH * wide} x {floating}], align 64
  %is_a = icmp eq i32 %turned_a, 112
  %is_b = icmp eq i32 %turned_b, 112
  %across_a = zext i1 %is_a to i64
  %across_b = zext i1 %is_b to i64
  call void @{name}_loops(
    i64 %across_a, i64 %across_b, i64 %m, i64 %n, i64 %k, {floating} %alpha, ptr %a, i64 %a_step, ptr %b, i64 %b_step,
    {floating} %beta, ptr %c, i64 %c_step, ptr %panel, i64 {wide}
  )
  ret void
}}
"""


@lru_cache(maxsize=1)
def are_ours() -> bool:
    """Whether kernels call our products: for vectors of 256 bits OpenBLAS's are as fast."""
    from pellucid.native.llvm import has_wide_vectors

    return has_wide_vectors()


@lru_cache(maxsize=2)
def address(floating: str) -> int:
    """Where the product for a floating type begins."""
    from pellucid.native.llvm import compiled

    if not are_ours():
        return blas.address(floating)
    name = f"pellucid_product_{floating}"
    return int(compiled(assembly(name, floating))(name))
