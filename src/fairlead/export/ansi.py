"""Terminal output as HTML, with its colours and weights. Other control sequences are removed.

The page's content security policy allows no inline styles. The sixteen named colours are classes in the stylesheet, for the
light and the dark theme. A `Palette` collects a class for every other colour.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape

#: A session may use any number of colours. After this many, new ones are rounded, so that the stylesheet stays small.
_EXACT_COLOURS = 1000
#: How many characters of one sequence are parsed. Terminals accept about 16 numbers.
_LONGEST_PARAMETERS = 256
#: The sixteen named colours of a terminal, the bright ones last.
# fmt: off
_NAMED = (
    "24292f", "c0392b", "2e8b57", "a67c00", "2f6fb0", "8e4ea8", "1f8a8a", "a9b0b8",
    "6b737c", "e0574a", "3fae72", "c99a1e", "4a90d9", "ad6fc8", "35b0b0", "f2f4f6",
)
# fmt: on
_FLAGS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 9: "strike"}
_UNFLAGS = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 29: ("strike",)}
_SEQUENCE = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])?"  # CSI
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and other strings
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

Colour = int | str  # the number of a named colour, or six hexadecimal digits


@dataclass(frozen=True, slots=True)
class Style:
    """How a piece of text looks."""

    foreground: Colour | None = None
    background: Colour | None = None
    inverse: bool = False
    flags: frozenset[str] = frozenset()


class Palette:
    """The classes of a page for colours other than the sixteen named ones."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}

    def css(self) -> str:
        """Return the style rules of the classes."""
        return "".join(f".{name}{{{rule}}}\n" for name, rule in self._rules.items())

    def classes(self, style: Style) -> str:
        """Return the names of the classes for a style."""
        foreground, background = style.foreground, style.background
        if style.inverse:
            foreground, background = (15 if background is None else background), (8 if foreground is None else foreground)
        names = sorted(style.flags)
        if background is not None:
            names.append(self._pair(foreground, _hex(background)))
        elif isinstance(foreground, int):
            names.append(f"c{foreground}")
        elif foreground is not None:
            names.append(self._single(foreground))
        return " ".join(names)

    def _single(self, colour: str) -> str:
        """Return the class of a colour on the page's background, darkened for the light theme and lightened for the dark one."""
        name = f"f{self._round_colour(colour)}"
        if name not in self._rules:
            self._rules[name] = f"color:light-dark(#{_with_lightness(name[1:], 0, 0.42)},#{_with_lightness(name[1:], 0.62, 1)})"
        return name

    def _pair(self, foreground: Colour | None, background: str) -> str:
        """Return the class of a colour on a coloured background, unchanged in both themes."""
        ground = self._round_colour(background)
        ink = (
            ("000000" if _luminance(ground) > 0.45 else "ffffff") if foreground is None else self._round_colour(_hex(foreground))
        )
        name = f"f{ink}-{ground}"
        self._rules.setdefault(name, f"color:#{ink};background:#{ground}")
        return name

    def _round_colour(self, colour: str) -> str:
        if len(self._rules) < _EXACT_COLOURS:
            return colour
        return "".join("08f"[int(digit, 16) // 6] * 2 for digit in colour[::2])


def lines(text: str, palette: Palette) -> list[str]:
    """Return the HTML of each line. No element spans two lines."""
    style = Style()
    result: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        parts: list[str] = []
        for piece_style, piece in _pieces(_overwritten(line), style):
            names = palette.classes(piece_style) if piece else ""
            parts.append(f'<span class="{names}">{escape(piece)}</span>' if names else escape(piece))
            style = piece_style
        result.append("".join(parts))
    return result


def _overwritten(line: str) -> str:
    """Return what a terminal shows of a line with carriage returns, as progress bars write them."""
    return next((part for part in reversed(line.split("\r")) if part), "")


def _pieces(line: str, style: Style) -> Iterator[tuple[Style, str]]:
    at = 0
    for match in _SEQUENCE.finditer(line):
        yield style, _visible(line[at : match.start()])
        at = match.end()
        if match[2] == "m":
            style = _apply_codes(style, match[1])
    yield style, _visible(line[at:])


def _visible(text: str) -> str:
    """Replace control characters by their symbols."""
    return _CONTROL.sub(lambda match: chr(0x2400 + ord(match[0])) if match[0] != "\x7f" else "\u2421", text)


def _apply_codes(style: Style, parameters: str) -> Style:
    """Return the style after one `ESC [ … m`."""
    parameters = parameters[:_LONGEST_PARAMETERS]
    codes = [int(part) if part.isdecimal() and len(part) < 5 else 0 for part in parameters.replace(":", ";").split(";")]
    if ":2::" in parameters:  # the form with an empty colour space
        codes = [int(part) for part in re.split("[:;]+", parameters) if part.isdecimal() and len(part) < 5]
    while codes:
        code = codes.pop(0)
        if code == 0:
            style = Style()
        elif code in _FLAGS:
            style = replace(style, flags=style.flags | {_FLAGS[code]})
        elif code in _UNFLAGS:
            style = replace(style, flags=style.flags.difference(_UNFLAGS[code]))
        elif code in (7, 27):
            style = replace(style, inverse=code == 7)
        elif code in (38, 48):
            colour = _take_extended_colour(codes)
            style = replace(style, foreground=colour) if code == 38 else replace(style, background=colour)
        else:
            style = _apply_colour(style, code)
    return style


def _apply_colour(style: Style, code: int) -> Style:
    for base, first in ((30, 0), (90, 8)):
        if base <= code < base + 8:
            return replace(style, foreground=code - base + first)
        if base + 10 <= code < base + 18:
            return replace(style, background=code - base - 10 + first)
    if code in (39, 49):
        return replace(style, foreground=None) if code == 39 else replace(style, background=None)
    return style


def _take_extended_colour(codes: list[int]) -> Colour | None:
    """Take the codes after 38 or 48, `5;n` or `2;r;g;b`, from `codes` and return their colour."""
    kind = codes.pop(0) if codes else 0
    if kind == 5 and codes:
        index = min(codes.pop(0), 255)
        if index < 16:
            return index
        if index >= 232:
            return f"{(index - 232) * 10 + 8:02x}" * 3
        cube = ((index - 16) // 36, (index - 16) // 6 % 6, (index - 16) % 6)
        return "".join(f"{level and level * 40 + 55:02x}" for level in cube)
    if kind == 2 and len(codes) >= 3:
        channels, codes[:3] = codes[:3], []
        return "".join(f"{min(channel, 255):02x}" for channel in channels)
    return None


def _hex(colour: Colour) -> str:
    return _NAMED[colour] if isinstance(colour, int) else colour


def _channels(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4))
    return red, green, blue


def _luminance(colour: str) -> float:
    red, green, blue = _channels(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _with_lightness(colour: str, lowest: float, highest: float) -> str:
    hue, lightness, saturation = colorsys.rgb_to_hls(*_channels(colour))
    channels = colorsys.hls_to_rgb(hue, min(max(lightness, lowest), highest), saturation)
    return "".join(f"{round(channel * 255):02x}" for channel in channels)
