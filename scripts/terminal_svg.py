"""Draws a captured terminal screen as SVG.

    python3 -m scripts.terminal_svg < screen.txt > screen.svg

The input is what `tmux capture-pane -e -p` prints: text with SGR sequences. The picture has a frame like a window, and needs no
font but one with fixed width: each run of text says how wide it is.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Literal

Scheme = Literal["dark", "light"]
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_OTHER = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b\[[0-9;?]*[A-Za-ln-z]|[\x0e\x0f]")
_CELL, _LINE, _SIZE = 8.4, 18, 14
_PADDING, _BAR = 16, 34
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
#: The sixteen named colours, then the background, the text and the frame.
# fmt: off
_PALETTES: dict[Scheme, tuple[tuple[str, ...], str, str, str]] = {
    "dark": (
        ("#3b4248", "#ec8078", "#7cc796", "#dcae56", "#86b8ea", "#cf9ad8", "#74c0c5", "#c4c9ce",
         "#7d8790", "#f29a93", "#97d8ad", "#e6c27e", "#a4c9f0", "#dcb3e3", "#95d2d6", "#f2f4f6"),
        "#15181b", "#d9dde1", "#2b3136",
    ),
    "light": (
        ("#23282d", "#a8332a", "#1d6b3c", "#855a00", "#20609c", "#7d3a86", "#17666f", "#5f676e",
         "#747b82", "#c0463b", "#2c8a50", "#a67300", "#2f78bd", "#9a4fa5", "#21808b", "#f4f2ee"),
        "#fcfbf9", "#23282d", "#e3e0da",
    ),
}
# fmt: on


@dataclass(frozen=True)
class Style:
    """How a cell looks. Colours are `#rrggbb`, or None for the terminal's own."""

    foreground: str | None = None
    background: str | None = None
    flags: frozenset[str] = frozenset()


@dataclass
class Run:
    """Neighbouring cells of one style, from a column on."""

    column: int
    style: Style
    text: str = ""
    width: int = 0


@dataclass
class Screen:
    """The lines of a screen, as runs of text."""

    lines: list[list[Run]] = field(default_factory=lambda: list[list[Run]]())
    columns: int = 0


_FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
_ENDS = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("inverse",), 29: ("strike",)}


def parse(text: str, scheme: Scheme) -> Screen:
    """Return the screen that a capture describes."""
    screen = Screen()
    style = Style()
    for line in _OTHER.sub("", text).rstrip("\n").split("\n"):
        runs: list[Run] = []
        column = at = 0
        for match in (*_SGR.finditer(line), None):
            piece = line[at : match.start() if match else len(line)]
            if piece:
                width = sum(map(_cells, piece))
                runs.append(Run(column, style, piece, width))
                column += width
            if match:
                style = _apply_codes(style, [int(part or 0) for part in re.split("[;:]", match[1])], scheme)
                at = match.end()
        screen.lines.append(runs)
        screen.columns = max(screen.columns, column)
    return screen


def _cells(char: str) -> int:
    if unicodedata.combining(char) or char in "\u200b\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _apply_codes(style: Style, codes: list[int], scheme: Scheme) -> Style:
    """Return the style after an SGR sequence."""
    left = list(reversed(codes))
    while left:
        code = left.pop()
        if code == 0:
            style = Style()
        elif code in _FLAGS:
            style = replace(style, flags=style.flags | {_FLAGS[code]})
        elif code in _ENDS:
            style = replace(style, flags=style.flags - set(_ENDS[code]))
        elif code in (38, 48):
            colour = _read_colour(left, scheme)
            style = replace(style, foreground=colour) if code == 38 else replace(style, background=colour)
        elif code in (39, 49):
            style = replace(style, foreground=None) if code == 39 else replace(style, background=None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style = replace(style, foreground=_palette_colour(code - 30 if code < 90 else code - 82, scheme))
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style = replace(style, background=_palette_colour(code - 40 if code < 100 else code - 92, scheme))
    return style


def _read_colour(left: list[int], scheme: Scheme) -> str | None:
    """Return the colour of `38;5;N` or `38;2;R;G;B`, whose numbers are at the end of `left`."""
    kind = left.pop() if left else 0
    if kind == 2 and len(left) >= 3:
        return f"#{left.pop() & 255:02x}{left.pop() & 255:02x}{left.pop() & 255:02x}"
    if kind != 5 or not left:
        return None
    number = left.pop()
    if number < 16:
        return _palette_colour(number, scheme)
    if number >= 232:
        grey = min(8 + (number - 232) * 10, 255)
        return f"#{grey:02x}{grey:02x}{grey:02x}"
    levels = (0, 95, 135, 175, 215, 255)
    number -= 16
    return f"#{levels[number // 36 % 6]:02x}{levels[number // 6 % 6]:02x}{levels[number % 6]:02x}"


def _palette_colour(number: int, scheme: Scheme) -> str:
    return _PALETTES[scheme][0][number % 16]


def svg(text: str, scheme: Scheme = "dark", *, title: str = "fairlead", columns: int | None = None) -> str:
    """Return the picture of a capture. `columns` is the width of the terminal; by default that of the longest line."""
    screen = parse(text, scheme)
    parts = _window(columns or screen.columns, len(screen.lines), scheme, title)
    for row, runs in enumerate(screen.lines):
        parts += _draw_row(runs, row, scheme)
    return "\n".join((*parts, "</svg>\n"))


#: How long an animation shows its last frame, in seconds.
_REST = 5.0


def animation(frames: Sequence[tuple[float, str]], scheme: Scheme = "dark", *, title: str = "fairlead", columns: int) -> str:
    """Return a picture that moves: captures, each with the second at which it was made, in a loop.

    A row is drawn once for each stretch of time in which it stays the same. Where pictures do not move, or the person asked for
    less motion, the last frame shows.
    """
    begin = frames[0][0]
    screens = [(second - begin, parse(text, scheme)) for second, text in frames]
    rows = max(len(screen.lines) for _, screen in screens)
    total = screens[-1][0] + _REST
    rules = [f".f {{ visibility: hidden; animation: {total:.1f}s step-end infinite; }}", ".f.last { visibility: visible; }"]
    spans: dict[tuple[float, float], str] = {}
    drawn: list[str] = []
    for row in range(rows):
        for start, end, runs in _stretches(screens, row, total):
            shapes = list(_draw_row(runs, row, scheme))
            if not shapes:
                continue
            if (start, end) == (0, total):
                drawn += shapes
                continue
            name = spans.setdefault((start, end), f"k{len(spans)}")
            kind = "f last" if end == total else "f"
            drawn += (f'<g class="{kind} {name}">', *shapes, "</g>")
    for (start, end), name in spans.items():
        steps = ["0% { visibility: hidden; }"] if start else []
        steps.append(f"{start / total:.3%} {{ visibility: visible; }}")
        if end < total:
            steps.append(f"{end / total:.3%} {{ visibility: hidden; }}")
        rules.append(f".{name} {{ animation-name: {name}; }} @keyframes {name} {{ {' '.join(steps)} }}")
    rules.append("@media (prefers-reduced-motion: reduce) { .f { animation: none; } }")
    return "\n".join((*_window(columns, rows, scheme, title), "<style>", *rules, "</style>", *drawn, "</svg>\n"))


def _stretches(screens: Sequence[tuple[float, Screen]], row: int, total: float) -> Iterator[tuple[float, float, list[Run]]]:
    """Yield what a row shows: from when, until when, and the runs."""
    start, shown = 0.0, list[Run]()
    for second, screen in screens:
        runs = screen.lines[row] if row < len(screen.lines) else []
        if runs != shown:
            if second > start:
                yield start, second, shown
            start, shown = second, runs
    yield start, total, shown


def _window(columns: int, rows: int, scheme: Scheme, title: str) -> list[str]:
    """Return the beginning of a picture: a frame like that of a window."""
    _, paper, ink, line = _PALETTES[scheme]
    width, height = round(columns * _CELL + 2 * _PADDING), rows * _LINE + 2 * _PADDING + _BAR
    dots = "".join(f'<circle cx="{20 + 18 * index}" cy="{_BAR / 2}" r="5.5" fill="{line}"/>' for index in range(3))
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0,0,{width},{height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>text {{ font: {_SIZE}px {_FONT}; white-space: pre; }}</style>",
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="9" fill="{paper}" stroke="{line}"/>',
        dots,
        f'<text x="{width / 2}" y="{_BAR / 2 + 5}" text-anchor="middle" fill="{ink}" opacity=".6">{escape(title)}</text>',
    ]


def _draw_row(runs: list[Run], row: int, scheme: Scheme) -> Iterator[str]:
    _, paper, ink, _ = _PALETTES[scheme]
    for run in runs:
        yield from _draw_run(run, _BAR + _PADDING + row * _LINE, paper, ink)


def _draw_run(run: Run, top: float, paper: str, ink: str) -> Iterator[str]:
    style = run.style
    fore, back = style.foreground or ink, style.background
    if "inverse" in style.flags:
        fore, back = back or paper, fore
    x, width = _PADDING + run.column * _CELL, run.width * _CELL
    if back is not None:
        yield f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_LINE}" fill="{back}"/>'
    words = run.text.rstrip(" ")
    if not words:
        return
    lead = len(words) - len(words.lstrip(" "))
    x, words = x + lead * _CELL, words[lead:]
    looks = [f'fill="{fore}"']
    if "bold" in style.flags:
        looks.append('font-weight="700"')
    if "italic" in style.flags:
        looks.append('font-style="italic"')
    if "dim" in style.flags:
        looks.append('opacity=".65"')
    lines = [name for flag, name in (("underline", "underline"), ("strike", "line-through")) if flag in style.flags]
    if lines:
        looks.append(f'text-decoration="{" ".join(lines)}"')
    length = sum(map(_cells, words)) * _CELL
    place = f'x="{x:.1f}" y="{top + _LINE - 5:.1f}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"'
    yield f"<text {place} {' '.join(looks)}>{escape(words)}</text>"


if __name__ == "__main__":
    sys.stdout.write(svg(sys.stdin.read(), "light" if "--light" in sys.argv else "dark"))
