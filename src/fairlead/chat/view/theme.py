"""The colours of the chat, by what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from fairlead.chat.view.text import RESET

Background: TypeAlias = Literal["dark", "light"]


class Theme(Struct, frozen=True):
    """How each kind of text looks: the SGR sequence that turns its style on. An empty one leaves the text as it is."""

    name: str
    text: str = ""
    dim: str = ""
    strong: str = "\x1b[1m"
    emphasis: str = "\x1b[3m"
    strike: str = "\x1b[9m"
    heading: str = "\x1b[1m"
    code: str = ""
    link: str = "\x1b[4m"
    quote: str = ""
    border: str = ""
    added: str = ""
    removed: str = ""
    #: The part of a changed line that differs.
    added_part: str = "\x1b[1m"
    removed_part: str = "\x1b[1m"
    hunk: str = ""
    success: str = ""
    error: str = ""
    warning: str = ""
    accent: str = ""
    user: str = ""
    thinking: str = ""
    tool: str = "\x1b[1m"
    #: The chosen row of a list.
    selected: str = "\x1b[7m"
    #: The name of a Pygments style for code; empty: code is not highlighted.
    highlighting: str = ""

    def paint(self, role: str, text: str) -> str:
        """Return the text in the style of `role`. Styles inside the text stay.

        Raises:
            AttributeError: The theme has no such role.
        """
        style: str = getattr(self, role)
        if not style or not text:
            return text
        if RESET in text:
            text = text.replace(RESET, RESET + style)
        return f"{style}{text}{RESET}"


def _colour(number: int) -> str:
    return f"\x1b[38;5;{number}m"


DARK = Theme(
    name="dark",
    dim=_colour(245),
    heading="\x1b[1;38;5;117m",
    code=_colour(180),
    link="\x1b[4;38;5;110m",
    quote=_colour(248),
    border=_colour(240),
    added=_colour(114),
    removed=_colour(174),
    added_part="\x1b[38;5;157;48;5;22m",
    removed_part="\x1b[38;5;217;48;5;52m",
    hunk=_colour(110),
    success=_colour(114),
    error=_colour(203),
    warning=_colour(179),
    accent=_colour(75),
    user=_colour(255),
    thinking="\x1b[3;38;5;245m",
    selected="\x1b[1;38;5;75m",
    highlighting="dark",
)

LIGHT = Theme(
    name="light",
    dim=_colour(243),
    heading="\x1b[1;38;5;25m",
    code=_colour(130),
    link="\x1b[4;38;5;25m",
    quote=_colour(240),
    border=_colour(249),
    added=_colour(28),
    removed=_colour(124),
    added_part="\x1b[38;5;22;48;5;194m",
    removed_part="\x1b[38;5;88;48;5;224m",
    hunk=_colour(25),
    success=_colour(28),
    error=_colour(160),
    warning=_colour(130),
    accent=_colour(26),
    user=_colour(232),
    thinking="\x1b[3;38;5;243m",
    selected="\x1b[1;38;5;26m",
    highlighting="light",
)

#: No colours, for NO_COLOR. Weights stay.
PLAIN = Theme(name="plain")


def choose(env: Mapping[str, str], background: Background | None = None) -> Theme:
    """Return the theme for a terminal.

    Args:
        env: The environment: NO_COLOR and a TERM without colours turn them off, COLORFGBG may tell the background.
        background: The background, if it is known. Otherwise it is guessed, and dark if nothing tells.
    """
    term = env.get("TERM", "")
    if env.get("NO_COLOR") or term == "dumb" or term.startswith("vt"):
        return PLAIN
    if background is None:
        last = env.get("COLORFGBG", "").rpartition(";")[2]
        background = "light" if last in ("7", "15") else "dark"
    return LIGHT if background == "light" else DARK
