"""Statuses in what a model writes: a few words between `<status>` and `</status>` are for a status line, not for the answer."""

from __future__ import annotations

from msgspec import Struct

OPEN, CLOSE = "<status>", "</status>"
#: A status is short. What goes on for longer is text that happens to begin so.
LONGEST = 500

#: What the model is told of them.
ADVICE = (
    f"While a longer task is under way, you may say in a few words what you are doing, between {OPEN} and {CLOSE}. "
    "People see it as a status line; it is no part of your answer."
)


class Status(Struct, frozen=True):
    text: str


class StatusFilter:
    """Parts statuses from text that arrives in pieces. What may become a status is held back until that is certain."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False

    def feed(self, piece: str) -> list[str | Status]:
        """The texts and statuses that are certain now, in order."""
        if not self._held and not self._inside and "<" not in piece:
            return [piece] if piece else []
        found: list[str | Status] = []
        self._held += piece
        while self._step(found):
            pass
        return found

    def rest(self) -> str:
        """What was held back, at the end of the text. A status that has not ended is none."""
        rest = (OPEN if self._inside else "") + self._held
        self._held, self._inside = "", False
        return rest

    def _step(self, found: list[str | Status]) -> bool:
        """Take one text or status from what is held; False if it may become anything yet."""
        if self._inside:
            status, closed, after = self._held.partition(CLOSE)
            if closed and len(status) <= LONGEST:
                if status.strip():
                    found.append(Status(status.strip()))
                self._held, self._inside = after, False
                return True
            if not closed and len(status) < LONGEST + len(CLOSE):  # the end may be there in part
                return False
            found.append(OPEN)
            self._inside = False
            return True
        text, opened, after = self._held.partition(OPEN)
        if not opened:
            kept = _beginning(text)
            text, after = (text[:-kept], text[-kept:]) if kept else (text, "")
        if text:
            found.append(text)
        self._held, self._inside = after, bool(opened)
        return self._inside


def without_statuses(text: str) -> str:
    """A whole text as people see it."""
    if OPEN not in text:
        return text
    filter = StatusFilter()
    parts = [part for part in filter.feed(text) if isinstance(part, str)]
    return "".join([*parts, filter.rest()])


def _beginning(text: str) -> int:
    """How many characters at the end of a text may be the beginning of a status."""
    return next((size for size in range(min(len(OPEN) - 1, len(text)), 0, -1) if OPEN.startswith(text[-size:])), 0)
