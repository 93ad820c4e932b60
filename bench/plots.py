"""Draw bars and lines as SVG, readable on a light and on a dark page.

A picture has its own background, which follows the colour scheme of the reader's system.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
_TOP, _LEFT, _RIGHT, _BOTTOM = 58, 66, 116, 50
_BAR, _GAP = 22, 12
#: The heights of the area of lines, and of a line of text.
_PLOT, _TEXT = 260, 15
_COLOURS = {
    "fairlead": "#0f9d8a",
    "fairlead, delta": "#56b8ab",
    "fairlead library": "#0f9d8a",
    "fairlead serve": "#0f9d8a",
    "pi 1.5": "#e0673f",
    "pi 0.87": "#c58f12",
    "omp 18": "#8d6ad6",
    "tau": "#4f86e8",
    "opencode serve": "#7d8590",
}
_STYLE = """
.card { fill: #ffffff } text { fill: #1f2328; font: 12px system-ui, Arial } .title { font-size: 15px; font-weight: 600 }
.quiet { fill: #59636e } .grid { stroke: #d1d9e0; stroke-width: 1 } .spread { stroke: #1f2328; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
.card { fill: #16191d } text { fill: #e6edf3 } .quiet { fill: #9ba4ae } .grid { stroke: #363c44 } .spread { stroke: #e6edf3 }
}
"""


@dataclass(frozen=True)
class Point:
    """A median with the smallest and the largest sample. `x` is what it was measured for, such as a number of pieces."""

    median: float
    low: float
    high: float
    x: float = 0


def bars(title: str, unit: str, rows: Sequence[tuple[str, Point]]) -> str:
    """Return horizontal bars, one for each name. A thin line shows the spread of the samples."""
    names = max(len(name) for name, _ in rows) * 7 + 24
    scale = (WIDTH - names - _RIGHT) / max(point.high for _, point in rows)
    parts: list[str] = []
    for number, (name, point) in enumerate(rows):
        top = _TOP + number * (_BAR + _GAP)
        middle = top + _BAR / 2
        parts += [
            _text(names - 10, middle + 4, name, anchor="end"),
            f'<rect x="{names}" y="{top}" width="{point.median * scale:.1f}" height="{_BAR}" rx="2" fill="{_colour(name)}"/>',
            f'<line class="spread" x1="{names + point.low * scale:.1f}" x2="{names + point.high * scale:.1f}"'
            f' y1="{middle}" y2="{middle}"/>',
            _text(names + point.high * scale + 8, middle + 4, f"{short(point.median)} {unit}"),
        ]
    return _picture(title, _TOP + len(rows) * (_BAR + _GAP) + 8, parts)


def lines(title: str, x_name: str, y_name: str, series: Sequence[tuple[str, Sequence[Point]]], *, logarithmic: bool) -> str:
    """Return a line for each name, with its name at its end. `logarithmic` applies to both axes."""
    points = [point for _, each in series for point in each]
    x_ticks = sorted({point.x for point in points})
    y_ticks = _decades(points) if logarithmic else _steps(max(point.high for point in points))
    across = _Axis(x_ticks[0] if logarithmic else 0, x_ticks[-1], _LEFT, WIDTH - _RIGHT, logarithmic)
    up = _Axis(y_ticks[0], y_ticks[-1], _TOP + 18 + _PLOT, _TOP + 18, logarithmic)
    parts = [_text(_LEFT, _TOP + 2, f"{y_name} (both axes are logarithmic)" if logarithmic else y_name, kind="quiet")]
    for tick in y_ticks:
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{up.at(tick):.1f}" y2="{up.at(tick):.1f}"/>')
        parts.append(_text(_LEFT - 8, up.at(tick) + 4, short(tick), anchor="end", kind="quiet"))
    bottom = up.at(y_ticks[0])
    for tick in x_ticks:
        parts.append(_text(across.at(tick), bottom + 18, f"{tick:,.0f}", anchor="middle", kind="quiet"))
    parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, bottom + 36, x_name, anchor="middle", kind="quiet"))
    ends: list[tuple[float, float, str]] = []
    for name, each in series:
        colour = _colour(name)
        path = " ".join(f"{across.at(point.x):.1f},{up.at(point.median):.1f}" for point in each)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        for point in each:
            x, y = across.at(point.x), up.at(point.median)
            parts.append(
                f'<line stroke="{colour}" x1="{x:.1f}" x2="{x:.1f}" y1="{up.at(point.low):.1f}" y2="{up.at(point.high):.1f}"/>'
            )
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')
        ends.append((up.at(each[-1].median), across.at(each[-1].x), name))
    parts += _labels(ends)
    return _picture(title, int(bottom) + _BOTTOM, parts)


@dataclass(frozen=True)
class _Axis:
    """Places values between two coordinates."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.low))
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def _decades(points: Sequence[Point]) -> list[float]:
    """Return powers of ten around all points."""
    first = math.floor(math.log10(min(point.low for point in points)))
    last = math.ceil(math.log10(max(point.high for point in points)))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _steps(largest: float) -> list[float]:
    """Return about five round numbers from 0 to above the largest value."""
    rough = largest / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    return [step * number for number in range(math.ceil(largest / step) + 1)]


def _labels(ends: Sequence[tuple[float, float, str]]) -> list[str]:
    """Return the names at the ends of lines, moved apart where they would overlap."""
    parts: list[str] = []
    last: dict[float, float] = {}
    for y, x, name in sorted(ends):
        place = max(y, last.get(x, -math.inf) + _TEXT)
        last[x] = place
        parts.append(_text(x + 9, place + 4, name, colour=_colour(name)))
    return parts


def _picture(title: str, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0,0,{WIDTH},{height}" width="{WIDTH}" height="{height}" role="img">'
    card = f'<rect class="card" width="{WIDTH}" height="{height}" rx="6"/>'
    name = f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    return "\n".join((head, name, card, _text(18, 28, title, kind="title"), *parts, "</svg>")) + "\n"


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "", colour: str = "") -> str:
    style = f' style="fill:{colour}"' if colour else ""
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name}{style}>{escape(text)}</text>'


def _colour(name: str) -> str:
    return _COLOURS.get(name, "#7d8590")


def short(value: float) -> str:
    """Return a number with two or three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"
