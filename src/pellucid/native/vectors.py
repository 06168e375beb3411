"""Words of kernels that are assembly already: vectors with some lanes unused, and the innermost loops of products.

A tile is some rows of a matrix product, two vectors wide, that stays in registers while the products are added to it.
What it multiplies lies in a panel: for each step of the sum the two vectors of the second matrix, one after the other.
"""

from collections.abc import Callable, Iterator
from typing import Any

from numpy import ndarray

from pellucid.native.words import matrix_in

LANES = {"float": 16, "double": 8}
BITS = {"float": 32, "double": 64}
NAMES = {4: "float", 8: "double"}  # by their bytes
SIDES = (0, 1)  # the two vectors of a row of the panel


class Assembly:
    """A word of kernels that is assembly already: its text for a floating type, and what it means in plain Python."""

    def __init__(self, name: str, text: Callable[[str], str], meaning: Callable[..., None]) -> None:
        self.name, self.text, self.meaning = name, text, meaning

    def __call__(self, *arguments: Any) -> None:
        """As plain Python computes."""
        self.meaning(*arguments)

    def texts(self, floating: str) -> tuple[str, str]:
        """What all such words need, and the word itself."""
        return declarations(floating), self.text(floating)


def _types(floating: str) -> tuple[str, str, str]:
    """A vector, a mask, and the ending of LLVM's names for their functions."""
    lanes = LANES[floating]
    return f"<{lanes} x {floating}>", f"<{lanes} x i1>", f"v{lanes}f{BITS[floating]}"


def declarations(floating: str) -> str:
    """What LLVM brings along: products that are added, and memory that is partly there."""
    vector, mask, ending = _types(floating)
    return f"""
declare {vector} @llvm.fma.{ending}({vector}, {vector}, {vector})
declare {vector} @llvm.masked.load.{ending}.p0(ptr, i32, {mask}, {vector})
declare void @llvm.masked.store.{ending}.p0({vector}, ptr, i32, {mask})
{_mask(floating)}"""


def _mask(floating: str) -> str:
    """A function: the lanes below a count."""
    lanes = LANES[floating]
    return f"""
define internal <{lanes} x i1> @below(i64 %count) alwaysinline {{
  %few = icmp slt i64 %count, {lanes}
  %most = select i1 %few, i64 %count, i64 {lanes}
  %any = icmp sgt i64 %most, 0
  %some = select i1 %any, i64 %most, i64 0
  %short = trunc i64 %some to i32
  %bit = shl i32 1, %short
  %bits = sub i32 %bit, 1
  %narrow = trunc i32 %bits to i{lanes}
  %mask = bitcast i{lanes} %narrow to <{lanes} x i1>
  ret <{lanes} x i1> %mask
}}"""


def _splat(name: str, vector: str, element: str, value: str, lanes: int) -> str:
    """One number in all lanes."""
    return f"""  {name}.one = insertelement {vector} poison, {element} {value}, i32 0
  {name} = shufflevector {vector} {name}.one, {vector} poison, <{lanes} x i32> zeroinitializer"""


def _loaded(name: str, place: str, mask: str, floating: str) -> str:
    """A vector of memory, 0 where the mask has nothing."""
    vector, mask_type, ending = _types(floating)
    size = BITS[floating] // 8
    arguments = f"ptr {place}, i32 {size}, {mask_type} {mask}, {vector} zeroinitializer"
    return f"  {name} = call {vector} @llvm.masked.load.{ending}.p0({arguments})"


def _stored(value: str, place: str, mask: str, floating: str) -> str:
    """Write the lanes of a vector that the mask has."""
    vector, mask_type, ending = _types(floating)
    arguments = f"{vector} {value}, ptr {place}, i32 {BITS[floating] // 8}, {mask_type} {mask}"
    return f"  call void @llvm.masked.store.{ending}.p0({arguments})"


# --- lines


def _strip(floating: str) -> str:
    """`to[i] = x[i] if left <= i < right else 0.0` for i below a width, and for some more: whole vectors are written.

    Most lines of an image are short, so that a loop over single elements never becomes one over vectors.
    """
    vector, mask, _ = _types(floating)
    lanes = LANES[floating]
    return f"""
define internal void @strip(
  ptr %x, i64 %origin, i64 %left, i64 %right, ptr %columns, i64 %begin, i64 %width
) {{
entry:
  %first = getelementptr {floating}, ptr %x, i64 %origin
  %out = getelementptr {floating}, ptr %columns, i64 %begin
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %from = getelementptr {floating}, ptr %first, i64 %i
  %to = getelementptr {floating}, ptr %out, i64 %i
  %within = sub i64 %right, %i
  %before = sub i64 %left, %i
  %not_beyond = call {mask} @below(i64 %within)
  %too_early = call {mask} @below(i64 %before)
  %not_early = xor {mask} %too_early, splat (i1 true)
  %inside = and {mask} %not_beyond, %not_early
{_loaded("%line", "%from", "%inside", floating)}
  store {vector} %line, ptr %to, align {BITS[floating] // 8}
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %width
  br i1 %more, label %loop, label %end
end:
  ret void
}}"""


# --- the panel


def _packed(floating: str) -> str:
    """Rows of the second matrix as they lie: `depth` rows of `width` elements, up to two vectors."""
    vector, lanes = _types(floating)[0], LANES[floating]
    copies = "\n".join(
        f"""  %from{side} = getelementptr {floating}, ptr %here, i64 {side * lanes}
  %to{side} = getelementptr {floating}, ptr %there, i64 {side * lanes}
{_loaded(f"%row{side}", f"%from{side}", f"%mask{side}", floating)}
  store {vector} %row{side}, ptr %to{side}, align 64"""
        for side in SIDES
    )
    return f"""
define internal void @packed(i64 %depth, i64 %width, ptr %b, i64 %begin, i64 %step, ptr %panel) noinline {{
entry:
{_masks(floating)}
  %first = getelementptr {floating}, ptr %b, i64 %begin
  %some = icmp sgt i64 %depth, 0
  br i1 %some, label %loop, label %end
loop:
  %p = phi i64 [0, %entry], [%next, %loop]
  %steps = mul i64 %p, %step
  %here = getelementptr {floating}, ptr %first, i64 %steps
  %place = mul i64 %p, {2 * lanes}
  %there = getelementptr {floating}, ptr %panel, i64 %place
{copies}
  %next = add i64 %p, 1
  %more = icmp slt i64 %next, %depth
  br i1 %more, label %loop, label %end
end:
  ret void
}}"""


def _masks(floating: str) -> str:
    """The lanes of both vectors that are within the width."""
    mask, lanes = _types(floating)[1], LANES[floating]
    return f"""  %mask0 = call {mask} @below(i64 %width)
  %beyond = sub i64 %width, {lanes}
  %mask1 = call {mask} @below(i64 %beyond)"""


def _turned(floating: str) -> str:
    """Columns of the second matrix, where it is stored transposed: squares of it are turned in registers."""
    vector, mask, _ = _types(floating)
    lanes = LANES[floating]
    lines = []
    for i in range(lanes):
        lines += [
            f"  %row{i} = add i64 %top, {i}",
            f"  %is{i} = icmp slt i64 %row{i}, %width",
            f"  %mask{i} = select i1 %is{i}, {mask} %deep, {mask} zeroinitializer",
            f"  %steps{i} = mul i64 %row{i}, %step",
            f"  %line{i} = getelementptr {floating}, ptr %first, i64 %steps{i}",
            f"  %from{i} = getelementptr {floating}, ptr %line{i}, i64 %p",
            _loaded(f"%v0.{i}", f"%from{i}", f"%mask{i}", floating),
        ]
    lines += _transposition(vector, lanes)
    for i in range(lanes):
        lines += [
            f"  %to{i} = getelementptr {floating}, ptr %there, i64 {i * 2 * lanes}",
            f"  store {vector} %v{lanes.bit_length() - 1}.{i}, ptr %to{i}, align 64",
        ]
    newline = "\n"
    return f"""
define internal void @turned(i64 %depth, i64 %width, ptr %b, i64 %begin, i64 %step, ptr %panel) noinline {{
entry:
  %first = getelementptr {floating}, ptr %b, i64 %begin
  br label %side
side:
  %top = phi i64 [0, %entry], [{lanes}, %beside]
  %some = icmp sgt i64 %depth, 0
  br i1 %some, label %loop, label %beside
loop:
  %p = phi i64 [0, %side], [%next, %loop]
  %left = sub i64 %depth, %p
  %deep = call {mask} @below(i64 %left)
  %lines = mul i64 %p, {2 * lanes}
  %place = add i64 %lines, %top
  %there = getelementptr {floating}, ptr %panel, i64 %place
{newline.join(lines)}
  %next = add i64 %p, {lanes}
  %more = icmp slt i64 %next, %depth
  br i1 %more, label %loop, label %beside
beside:
  %again = icmp eq i64 %top, 0
  %wide = icmp sgt i64 %width, {lanes}
  %both = and i1 %again, %wide
  br i1 %both, label %side, label %end
end:
  ret void
}}"""


def _transposition(vector: str, lanes: int) -> Iterator[str]:
    """A square turned: pairs of rows exchange every second element, then every second pair of elements, and so on."""
    for stage in range(lanes.bit_length() - 1):
        reach = 1 << stage
        low = [i if not i & reach else lanes + i - reach for i in range(lanes)]
        high = [i + reach if not i & reach else lanes + i for i in range(lanes)]
        for i in range(lanes):
            first, second = f"%v{stage}.{i & ~reach}", f"%v{stage}.{i | reach}"
            picked = ", ".join(f"i32 {each}" for each in (high if i & reach else low))
            yield f"  %v{stage + 1}.{i} = shufflevector {vector} {first}, {vector} {second}, <{lanes} x i32> <{picked}>"


# --- the tile


def _tile(height: int, sides: int, floating: str) -> str:
    """`c ← alpha a b + beta c` for `height` rows: a's elements are `down` and `along` apart, b's are in the panel."""
    vector, lanes = _types(floating)[0], LANES[floating]
    sums = [f"{i}.{side}" for i in range(height) for side in SIDES[:sides]]
    rows = [f"  %d{i} = mul i64 %down, {i}" for i in range(height)]
    rows += [f"  %a{i} = getelementptr {floating}, ptr %first, i64 %d{i}" for i in range(height)]
    loop = [f"  %x{each} = phi {vector} [zeroinitializer, %entry], [%y{each}, %loop]" for each in sums]
    loop += _products(height, SIDES[:sides], floating)
    after = [f"  %r{each} = phi {vector} [zeroinitializer, %entry], [%y{each}, %loop]" for each in sums]
    newline = "\n"
    return f"""
define internal void @{_tile_name(height, sides)}(
  i64 %depth, i64 %width, {floating} %alpha, ptr %a, i64 %begin, i64 %down, i64 %along, ptr %panel,
  {floating} %beta, ptr %c, i64 %c_begin, i64 %c_step
) noinline {{
entry:
{_masks(floating)}
  %first = getelementptr {floating}, ptr %a, i64 %begin
{newline.join(rows)}
  %some = icmp sgt i64 %depth, 0
  br i1 %some, label %loop, label %after
loop:
  %p = phi i64 [0, %entry], [%next, %loop]
  %at = phi i64 [0, %entry], [%further, %loop]
{newline.join(loop)}
  %next = add i64 %p, 1
  %further = add i64 %at, %along
  %more = icmp slt i64 %next, %depth
  br i1 %more, label %loop, label %after
after:
{newline.join(after)}
{_splat("%scale", vector, floating, "%alpha", lanes)}
{_splat("%keep", vector, floating, "%beta", lanes)}
  %result = getelementptr {floating}, ptr %c, i64 %c_begin
  %fresh = fcmp oeq {floating} %beta, 0.0
  br i1 %fresh, label %write, label %add
write:
{newline.join(_results("w", sums, floating))}
  ret void
add:
{newline.join(_results("s", sums, floating))}
  ret void
}}"""


def _products(height: int, sides: tuple[int, ...], floating: str) -> Iterator[str]:
    """One step of the sum: vectors of the panel, times an element of each row."""
    vector, _, ending = _types(floating)
    lanes = LANES[floating]
    yield f"  %lines = mul i64 %p, {2 * lanes}"
    for side in sides:
        yield f"  %place{side} = add i64 %lines, {side * lanes}"
        yield f"  %from{side} = getelementptr {floating}, ptr %panel, i64 %place{side}"
        yield f"  %b{side} = load {vector}, ptr %from{side}, align 64"
    for i in range(height):
        yield f"  %e{i} = getelementptr {floating}, ptr %a{i}, i64 %at"
        yield f"  %n{i} = load {floating}, ptr %e{i}"
        yield _splat(f"%v{i}", vector, floating, f"%n{i}", lanes)
        for side in sides:
            factors = f"{vector} %v{i}, {vector} %b{side}, {vector} %x{i}.{side}"
            yield f"  %y{i}.{side} = call {vector} @llvm.fma.{ending}({factors})"


def _results(stem: str, sums: list[str], floating: str) -> Iterator[str]:
    """Write the sums, scaled (stem w), or add them to what stands there, scaled too (stem s)."""
    vector, _, ending = _types(floating)
    for each in sums:
        row, side = each.split(".")
        yield f"  %{stem}o{each} = mul i64 %c_step, {row}"
        yield f"  %{stem}p{each} = add i64 %{stem}o{each}, {int(side) * LANES[floating]}"
        yield f"  %{stem}c{each} = getelementptr {floating}, ptr %result, i64 %{stem}p{each}"
        yield f"  %{stem}v{each} = fmul {vector} %r{each}, %scale"
        value = f"%{stem}v{each}"
        if stem == "s":
            yield _loaded(f"%{stem}l{each}", f"%{stem}c{each}", f"%mask{side}", floating)
            factors = f"{vector} %{stem}l{each}, {vector} %keep, {vector} {value}"
            value = f"%{stem}f{each}"
            yield f"  {value} = call {vector} @llvm.fma.{ending}({factors})"
        yield _stored(value, f"%{stem}c{each}", f"%mask{side}", floating)


def _tile_name(height: int, sides: int) -> str:
    return f"tile_{height}{'_narrow' if sides == 1 else ''}"


# --- what the words mean


def _strip_meaning(x: ndarray, origin: int, left: int, right: int, columns: ndarray, begin: int, width: int) -> None:
    for i in range(width):
        columns[begin + i] = x[origin + i] if left <= i < right else 0.0


strip = Assembly("strip", _strip, _strip_meaning)


def _panel(panel: ndarray, depth: int) -> ndarray:
    """The panel as a matrix."""
    return panel[: depth * 2 * LANES[NAMES[panel.itemsize]]].reshape(depth, -1)


def _packed_meaning(depth: int, width: int, b: ndarray, begin: int, step: int, panel: ndarray) -> None:
    _panel(panel, depth)[:, :width] = matrix_in(b, begin, step, (depth, width))


def _turned_meaning(depth: int, width: int, b: ndarray, begin: int, step: int, panel: ndarray) -> None:
    _panel(panel, depth)[:, :width] = matrix_in(b, begin, step, (width, depth)).T


packed, turned = Assembly("packed", _packed, _packed_meaning), Assembly("turned", _turned, _turned_meaning)


def tile(height: int, sides: int = 2) -> Assembly:
    """The word for tiles of some rows, one vector or two wide."""

    def meaning(
        depth: int, width: int, alpha: float, a: ndarray, begin: int, down: int, along: int, panel: ndarray,
        beta: float, c: ndarray, c_begin: int, c_step: int,
    ) -> None:  # fmt: skip
        first = matrix_in(a, begin, down, (height, depth), along)
        out = matrix_in(c, c_begin, c_step, (height, width))
        product = alpha * (first @ _panel(panel, depth)[:, :width])
        out[...] = product + beta * out if beta else product

    return Assembly(_tile_name(height, sides), lambda floating: _tile(height, sides, floating), meaning)
