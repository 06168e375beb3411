"""An explanation as text, as HTML for notebooks, and with rich: one list of tables, three ways to draw it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

from pellucid.diagnose.naming import amount, number, plural
from pellucid.errors import printable

if TYPE_CHECKING:
    from pellucid.diagnose.contributions import Contribution
    from pellucid.diagnose.explain import Explanation, Path

__all__ = ["Table", "amount", "headline", "html", "plain", "show", "tables", "text"]

IN_HEADLINE = 6  # paths that the first line writes out
ROWS = 12  # rows of a table that are drawn
STEPS = 7  # operations of a path that are drawn


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a title; `numbers` tells how many of the first columns are figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: int


# --- words


def plain(value: Any) -> Any:
    """A value as strict JSON has it: numbers that it cannot hold, or not exactly, as text.

    >>> plain({"norm": float("inf"), "count": 2**60, "names": ["w"]})
    {'norm': 'inf', 'count': '1152921504606846976', 'names': ['w']}
    """
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, int) and value > 2**53:
        return str(value) if value.bit_length() < 10_000 else hex(value)  # Python writes no more digits in base 10
    return value


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g} %"


def headline(e: "Explanation") -> str:
    """The first line: the derivative as a sum, or its size."""
    symbol = f"∂{e.y}/∂{e.x}"
    if e.value is None:
        shape = tuple(e.gradient.array.shape)
        uses = plural(len(e.uses), "use")
        return f"{symbol}: norm {number(e.norm)}, shape {shape}, {uses} of {e.x}, {plural(e.count, 'path')} from {e.y}"
    total = f"{symbol} = {number(e.value)}"
    if not e.complete:
        return f"{total}, the sum of {plural(e.count, 'path')}; the strongest of them:"
    if e.count > IN_HEADLINE:
        return f"{total}, the sum of {plural(e.count, 'path')}"
    if e.count == 1:
        (path,) = e.paths
        product = f" = {product_of(path)}" if len(path.factors) > 1 else ""
        return f"{total}{product} {path.via}"
    return f"{total} = {signed(e.paths)}"


def signed(paths: Sequence["Path"]) -> str:
    """The values of paths as a sum: `-6 via … + 10 via …`."""
    first, *others = paths
    parts = [f"{number(first.value or 0.0)} {first.via}"]
    for path in others:
        value = path.value or 0.0
        parts.append(f"{'-' if value < 0 else '+'} {number(abs(value))} {path.via}")
    return " ".join(parts)


def product_of(path: "Path") -> str:
    """The factors of a path, the first ones and the last ones if there are many."""
    factors = [number(factor) for factor in path.factors]
    if path.start != 1:
        factors.insert(0, number(path.start))
    return " × ".join(
        abridged([f"({factor})" if i and factor[0] == "-" else factor for i, factor in enumerate(factors)])
    )


def abridged(parts: Sequence[str], ranks: Sequence[Any] = ()) -> list[str]:
    """A long list with some left out: those of the highest rank, else the middle.

    >>> abridged("abcdefghij")
    ['a', 'b', 'c', '… 4 more …', 'h', 'i', 'j']
    """
    if len(parts) < STEPS + 2:
        return list(parts)
    from_end = [min(i, len(parts) - 1 - i) for i in range(len(parts))]
    order = sorted(range(len(parts)), key=lambda i: (ranks[i] if ranks else 0, from_end[i]))
    kept, shown, last = sorted(order[: STEPS - 1]), [], -1
    for i in [*kept, len(parts)]:
        gap = i - last - 1
        shown += [parts[last + 1]] if gap == 1 else [f"… {gap} more …"] if gap else []
        shown += [parts[i]] if i < len(parts) else []
        last = i
    return shown


def routes(e: "Explanation") -> list[str]:
    """The operations of each path from the result to the tensor; of long ones those that few of the others share."""
    shared = Counter(id(label) for path in e.paths for label in path.labels)
    found = []
    for path in e.paths:
        inner = path.labels[1:]
        ranks = [0, *(shared[id(label)] for label in inner), 0]
        found.append(" → ".join(abridged([e.y, *(label.full for label in inner), e.x], ranks)))
    return found


def lines_of(path: "Path") -> str:
    """The lines that a path passes."""
    places = list(dict.fromkeys(label.at for label in path.labels))
    return ", ".join(places if len(places) <= 3 else [*places[:2], "…", places[-1]])


# --- tables


def tables(e: "Explanation") -> list[Table]:
    """What is drawn under the first line."""
    found = [scalar_paths(e)] if e.value is not None else tensor_tables(e)
    return [table for table in found if table.rows]


def scalar_paths(e: "Explanation") -> Table:
    rows = [
        (number(path.value or 0.0), product_of(path), route, lines_of(path))
        for path, route in zip(e.paths, routes(e), strict=True)
    ]
    title = f"paths from {e.y} to {e.x}: the product of the local derivatives along each"
    return Table(title, ("value", "product", "path", "at"), limited(rows, len(rows)), 1)


def tensor_tables(e: "Explanation") -> list[Table]:
    columns = ("share", "norm", "cosine")
    ways = [(*figures(path.part), route, lines_of(path)) for path, route in zip(e.paths, routes(e), strict=True)]
    tables = [
        Table(f"uses of {e.x} (the shares add to 100 %)", (*columns, "use", "at"), parts(e.uses), 3),
        Table(f"terms of {e.y}", (*columns, "term", "at"), terms(e), 3),
        Table(f"modules that use {e.x}", (*columns, "module", ""), parts(e.modules), 3),
    ]
    return [
        *tables,
        Table(f"strongest paths of {amount(e.count)}", (*columns, "path", "at"), limited(ways, len(ways)), 3),
    ]


def parts(contributions: Sequence["Contribution"]) -> tuple[tuple[str, ...], ...]:
    """The rows of a table of contributions."""
    rows = []
    for part in contributions[:ROWS]:
        module = f" [{part.label.module}]" if part.label.module and part.label.operation else ""
        times = f" ({part.count} times)" if part.count > 1 and part.label.operation else ""
        rows.append((*figures(part), f"{part.label.via}{module}{times}", part.label.at))
    return limited(rows, len(contributions))


def terms(e: "Explanation") -> tuple[tuple[str, ...], ...]:
    """The rows of the terms; those without gradient share one."""
    counted = [part for part in e.terms if part.norm != 0]
    without = sum(part.count for part in e.terms) - sum(part.count for part in counted)
    none = ("0 %", "0", "-", f"{plural(without, 'term')} without gradient for {e.x}", "")
    return (*parts(counted), *([none] if without else []))


def figures(part: "Contribution") -> tuple[str, str, str]:
    return percent(part.share), number(part.norm), "-" if part.cosine is None else f"{part.cosine:.2f}"


def limited(rows: Sequence[tuple[str, ...]], count: int) -> tuple[tuple[str, ...], ...]:
    """The first rows, and how many there are beside them."""
    if count <= ROWS:
        return tuple(rows)
    return (*rows[:ROWS], ("…", *[""] * (len(rows[0]) - 3), f"and {plural(count - ROWS, 'other')}", ""))


# --- drawing


def text(e: "Explanation") -> str:
    """Plain text, without colours or lines."""
    lines = [headline(e)]
    for table in tables(e):
        lines += ["", table.title, *drawn(table)]
    lines += ["", *(f"note: {note}" for note in e.notes)] if e.notes else []
    return printable("\n".join(lines))


def drawn(table: Table) -> Iterable[str]:
    """The lines of one table, its columns aligned."""
    grid = [table.columns, *table.rows]
    widths = [max(len(row[i]) for row in grid) for i in range(len(table.columns))]
    for row in grid:
        cells = [
            cell.rjust(width) if i < table.numbers else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()


STYLE = "text-align:{};padding:1px 10px 1px 0;white-space:nowrap"


def html(e: "Explanation") -> str:
    """For notebooks: no script, no outside style, everything escaped."""
    body = [f"<p><b>{escape(headline(e))}</b></p>"]
    for table in tables(e):
        body.append(f"<p style='margin:8px 0 2px'>{escape(table.title)}</p><table style='border-collapse:collapse'>")
        body.append(html_row("th", table.columns, table.numbers))
        body += [html_row("td", row, table.numbers) for row in table.rows]
        body.append("</table>")
    body += [f"<p><i>{escape(note)}</i></p>" for note in e.notes]
    return f"<div style='font-family:monospace'>{''.join(body)}</div>"


def html_row(tag: str, cells: Sequence[str], numbers: int) -> str:
    drawn = (
        f"<{tag} style='{STYLE.format('right' if i < numbers else 'left')}'>{escape(cell)}</{tag}>"
        for i, cell in enumerate(cells)
    )
    return f"<tr>{''.join(drawn)}</tr>"


def show(e: "Explanation") -> None:
    """Print with rich where it is installed, else plainly."""
    try:
        from rich.console import Console
    except ImportError:
        print(text(e))
        return
    console = Console(highlight=False)
    console.print(headline(e), style="bold", markup=False)
    for table in tables(e):
        console.print(rich_table(table))
    for note in e.notes:
        console.print(f"note: {note}", style="italic", markup=False)


def rich_table(table: Table) -> Any:
    """The same table for rich; cells are text, never markup."""
    from rich.table import Table as RichTable
    from rich.text import Text

    drawing = RichTable(title=Text(table.title), title_justify="left", box=None)
    for i, column in enumerate(table.columns):
        drawing.add_column(column, justify="right" if i < table.numbers else "left", style="cyan" if i == 0 else "")
    for row in table.rows:
        drawing.add_row(*(Text(cell) for cell in row))
    return drawing
