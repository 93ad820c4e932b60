"""What a session does differently for a model with a small context window.

These are facts of the window alone. The session asks for them when it prepares a turn; the loop does not know them.
"""

from __future__ import annotations

from typing import TypeGuard

#: The largest window that counts as small, in tokens.
SMALL_WINDOW = 32_768
_CHARACTERS_PER_TOKEN = 4
#: The parts of a small window that the result of one tool may take, and that stay free for the answer.
_TOOL_OUTPUT_PART = 4
_RESERVE_PART = 4


def is_small(window: int | None) -> TypeGuard[int]:
    """Return whether a context window, in tokens, is small. One that is not known (0 or None) is not."""
    return window is not None and 0 < window <= SMALL_WINDOW


def longest_tool_output(window: int) -> int | None:
    """Return how many characters of text one tool result may have; None if the tools' own limits suffice."""
    return window // _TOOL_OUTPUT_PART * _CHARACTERS_PER_TOKEN if is_small(window) else None


def largest_reserve(window: int) -> int:
    """Return how much of a small window may stay free for the answer, in tokens."""
    return window // _RESERVE_PART
