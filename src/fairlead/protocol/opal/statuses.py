"""Takes statuses out of text: the words between `<status>` and `</status>`, which a model writes for a status line."""

from __future__ import annotations

from msgspec import Struct

OPEN, CLOSE = "<status>", "</status>"
#: The longest status. Longer text only happens to start like one.
LONGEST = 500

#: What the system prompt says about statuses.
ADVICE = (
    f"During a longer task, you may say in a few words what you are doing, between {OPEN} and {CLOSE}. "
    "People see it as a status line; it is not part of your answer."
)


class Status(Struct, frozen=True):
    text: str


class StatusFilter:
    """Separates statuses from text that arrives in pieces. Text that may become a status is held back until that is certain."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False

    def feed(self, piece: str) -> list[str | Status]:
        """Add a piece. Returns the texts and statuses that are certain now, in order."""
        if not self._held and not self._inside and "<" not in piece:
            return [piece] if piece else []
        found: list[str | Status] = []
        self._held += piece
        while self._step(found):
            pass
        return found

    def rest(self) -> str:
        """Return what was held back at the end of the text. An unfinished status is plain text."""
        rest = (OPEN if self._inside else "") + self._held
        self._held, self._inside = "", False
        return rest

    def _step(self, found: list[str | Status]) -> bool:
        """Take one text or status from what is held. Returns False if nothing is certain yet."""
        if self._inside:
            status, closed, after = self._held.partition(CLOSE)
            if closed and len(status) <= LONGEST:
                if status.strip():
                    found.append(Status(status.strip()))
                self._held, self._inside = after, False
                return True
            if not closed and len(status) < LONGEST + len(CLOSE):  # a part of the end may be there
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
    """Return a whole text without its statuses."""
    if OPEN not in text:
        return text
    filter = StatusFilter()
    parts = [part for part in filter.feed(text) if isinstance(part, str)]
    return "".join([*parts, filter.rest()])


def _beginning(text: str) -> int:
    """How many characters at the end of a text may be the beginning of a status."""
    return next((size for size in range(min(len(OPEN) - 1, len(text)), 0, -1) if OPEN.startswith(text[-size:])), 0)
