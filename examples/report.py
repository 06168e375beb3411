"""A training run as one HTML page: charts as inline SVG, settings, a sample; no script, nothing to load."""

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

Points = list[tuple[float, float]]

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 12, 40
MOST_POINTS = 400  # more than this is finer than the pixels and only makes the file larger


@dataclass
class Chart:
    title: str
    caption: str
    series: dict[str, Points]
    logarithmic: bool = False


def write_report(path: Path, title: str, summary: str, charts: list[Chart], settings: dict, sample: str) -> None:
    """Write the page; `charts` stand in reading order, `settings` become a table."""
    body = "\n".join(
        [
            f"<h1>{escape(title)}</h1>",
            f"<p>{escape(summary)}</p>",
            *(draw(chart) for chart in charts),
            f"<h2>A sample of the trained model</h2>\n<blockquote>{_paragraphs(sample)}</blockquote>",
            f"<h2>Settings</h2>\n{_settings_table(settings)}",
        ]
    )
    path.write_text(PAGE.format(title=escape(title), style=STYLE, body=body), encoding="utf-8")


def draw(chart: Chart) -> str:
    """One figure: grid, axes, a line per series, and a legend in the order of the series."""
    everything = [point for points in chart.series.values() for point in points]
    x_scale = Scale([x for x, _ in everything] + [0.0], LEFT, WIDTH - RIGHT)
    y_values = [y for _, y in everything] + ([] if chart.logarithmic else [0.0])
    y_scale = Scale(y_values, HEIGHT - BOTTOM, TOP, chart.logarithmic)
    lines = [_line(points, number, x_scale, y_scale) for number, points in enumerate(chart.series.values())]
    legend = [f'<span><i class="key{number}"></i>{escape(name)}</span>' for number, name in enumerate(chart.series)]
    return "\n".join(
        [
            f"<h2>{escape(chart.title)}</h2>",
            f'<figure><div class="legend">{"".join(legend)}</div>',
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}">',
            *_axes(x_scale, y_scale),
            *lines,
            f"</svg><figcaption>{escape(chart.caption)}</figcaption></figure>",
        ]
    )


class Scale:
    """Maps values to pixels, and knows the round numbers worth a grid line."""

    def __init__(self, values: list[float], start: float, end: float, logarithmic: bool = False):
        self.logarithmic = logarithmic
        # A diverged run must still be drawn, and zero has no logarithm.
        usable = [v for v in values if math.isfinite(v) and (v > 0 or not logarithmic)] or [0.1, 1.0]
        inner = [self._inner(value) for value in usable]
        self.low, self.high = min(inner), max(inner)
        if self.high - self.low < 1e-12:
            self.high = self.low + 1.0
        self.start, self.end = start, end

    def _inner(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def __call__(self, value: float) -> float:
        share = (self._inner(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def draws(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self.logarithmic)

    def ticks(self) -> list[float]:
        if self.logarithmic:
            return self._decades()
        step = _round_step((self.high - self.low) / 6)
        return [step * n for n in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]

    def _decades(self) -> list[float]:
        """Powers of ten, with 2 and 5 between them where there are few."""
        factors = (1, 2, 5) if self.high - self.low < 2.5 else (1,)
        exponents = range(math.floor(self.low), math.ceil(self.high) + 1)
        candidates = [factor * 10.0**exponent for exponent in exponents for factor in factors]
        return [tick for tick in candidates if self.low <= math.log10(tick) <= self.high]


def _round_step(rough: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough)


def _axes(x_scale: Scale, y_scale: Scale) -> list[str]:
    rows = []
    for tick in y_scale.ticks():
        y = y_scale(tick)
        rows.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        rows.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    for tick in x_scale.ticks():
        x = x_scale(tick)
        rows.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:,.0f}</text>')
    floor = HEIGHT - BOTTOM
    rows.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}"/>')
    rows.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">step</text>')
    return rows


def _line(points: Points, number: int, x_scale: Scale, y_scale: Scale) -> str:
    stride = max(1, math.ceil(len(points) / MOST_POINTS))
    kept = points[::stride] + points[-1:]
    path = " ".join(f"{x_scale(x):.1f},{y_scale(y):.1f}" for x, y in kept if y_scale.draws(y))
    return f'<polyline class="line{number}" points="{path}"/>'


def _settings_table(settings: dict) -> str:
    rows = [f"<tr><th>{escape(key)}</th><td>{escape(str(value))}</td></tr>" for key, value in settings.items()]
    return f"<table>{''.join(rows)}</table>"


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in text.split("\n") if line.strip())


# Light and dark pairs keep the same hue order, told apart also by people who see few colours.
LIGHT = ("#0b62a8", "#c8550a", "#13795b", "#8a3f97", "#6b6b00")
DARK = ("#6cb6ff", "#ff9f5a", "#4fd1a5", "#d79be4", "#d6cf4a")


def _colours(palette: tuple[str, ...]) -> str:
    return "".join(f"--c{number}: {colour}; " for number, colour in enumerate(palette))


def _series_rules() -> str:
    rule = ".line{n} {{ stroke: var(--c{n}); }} .key{n} {{ background: var(--c{n}); }}"
    return "\n".join(rule.format(n=number) for number in range(len(LIGHT)))


STYLE = f"""
:root {{ color-scheme: light dark; --paper: #fdfdfb; --ink: #1d1f21; --soft: #5d6166; --rule: #dfe1e3;
  {_colours(LIGHT)}}}
@media (prefers-color-scheme: dark) {{
  :root {{ --paper: #16181b; --ink: #e6e7e8; --soft: #a0a5ab; --rule: #33373c; {_colours(DARK)}}}
}}
body {{ background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif;
  max-width: 46rem; margin: 2.5rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.7rem; line-height: 1.2; margin-bottom: 0.3rem; }}
h2 {{ font-size: 1.1rem; margin: 2.2rem 0 0.5rem; }}
figure {{ margin: 0; }}
svg {{ width: 100%; height: auto; display: block; }}
svg text {{ fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }}
polyline {{ fill: none; stroke-width: 1.75; stroke-linejoin: round; }}
.grid {{ stroke: var(--rule); }} .axis {{ stroke: var(--soft); }}
.legend {{ display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; font-size: 0.85rem; color: var(--soft); }}
.legend i {{ display: inline-block; width: 1.1em; height: 3px; margin-right: 0.5em; vertical-align: middle; }}
figcaption {{ font-size: 0.85rem; color: var(--soft); }}
blockquote {{ margin: 0; padding-left: 1rem; border-left: 3px solid var(--rule);
  font-family: Georgia, serif; }}
table {{ border-collapse: collapse; font-size: 0.9rem; }}
th, td {{ text-align: left; padding: 0.25rem 1.5rem 0.25rem 0; border-bottom: 1px solid var(--rule); }}
th {{ font-weight: normal; color: var(--soft); }}
{_series_rules()}
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
