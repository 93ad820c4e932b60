"""Patterns of rules: over commands, where `*` is any text, and over paths, where it stays within a name and `**` does not.

A text may have unknown parts, `ANY`, where anything can stand. A rule that forbids has to fit if the text *may* be one that it
forbids; a rule that allows, only if it fits whatever stands there. Matching takes time in proportion to pattern times text.
"""

from __future__ import annotations

from typing import TypeAlias

#: In a text: anything, of any length. No command and no path can hold this character.
ANY = "\0"


#: One step of a pattern: a character; or any one character, any within a name, any at all, the start of any number of
#: folders, what is in one of these.
_Step: TypeAlias = str


_ONE, _NAME, _ALL, _FOLDERS, _FOLDER = "?one", "*name", "**all", "**/start", "**/inside"


class WildcardPattern:
    """A pattern over a whole text. With `paths`, `*` does not match `/`; with `fold`, upper and lower case are the same."""

    __slots__ = ("_fold", "_paths", "_steps")

    def __init__(self, text: str, *, paths: bool = False, fold: bool = False) -> None:
        self._paths = paths
        self._fold = fold
        self._steps = _steps(text.casefold() if fold else text, paths)

    def fits(self, text: str) -> bool:
        """Return whether the text matches, whatever stands where it is not known."""
        return self._run(text, certain=True)

    def may_fit(self, text: str) -> bool:
        """Return whether something that the text may turn out to be matches."""
        return self._run(text, certain=False)

    def _run(self, text: str, *, certain: bool) -> bool:
        steps = self._steps
        at = self._skipped({0})
        for character in text.casefold() if self._fold else text:
            if character == ANY:
                # What is unknown may take the pattern as far as it goes; for certain only a place that takes anything stays.
                at = {each for each in at if self._takes_all(each)} if certain else set(range(min(at), len(steps) + 1))
            else:
                at = {then for each in at if each < len(steps) for then in self._after(each, character)}
            at = self._skipped(at)
            if not at:
                return False
        return len(steps) in at

    def _takes_all(self, at: int) -> bool:
        return at < len(self._steps) and (self._steps[at] == _ALL or (self._steps[at] == _NAME and not self._paths))

    def _after(self, at: int, character: str) -> tuple[int, ...]:
        """Return where the pattern stands after it took a character at `at`; nowhere if it cannot."""
        step = self._steps[at]
        if step == _ALL:
            return (at,)
        if step == _NAME:
            return () if self._paths and character == "/" else (at,)
        if step == _ONE:
            return () if self._paths and character == "/" else (at + 1,)
        if step == _FOLDERS:
            return () if character == "/" else (at + 1,)
        if step == _FOLDER:
            return (at - 1,) if character == "/" else (at,)
        return (at + 1,) if step == character else ()

    def _skipped(self, at: set[int]) -> set[int]:
        """With the places that can be reached without a character."""
        for each in sorted(at):
            while each < len(self._steps) and self._steps[each] in (_NAME, _ALL, _FOLDERS):
                each += 2 if self._steps[each] == _FOLDERS else 1
                at.add(each)
        return at


def _steps(pattern: str, paths: bool) -> list[_Step]:
    steps: list[_Step] = []
    at = 0
    while at < len(pattern):
        if paths and pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
            steps += (_FOLDERS, _FOLDER)
            at += 3
        elif paths and pattern.startswith("**", at):
            steps.append(_ALL)
            at += 2
        else:
            steps.append({"*": _NAME, "?": _ONE}.get(pattern[at], pattern[at]))
            at += 1
    return steps


class CommandPattern:
    """A pattern over one simple command. `git *` also fits `git` alone."""

    __slots__ = ("_patterns", "is_literal")

    def __init__(self, text: str) -> None:
        #: Whether it stands for one command alone.
        self.is_literal = not set(text) & set("*?")
        self._patterns = [WildcardPattern(text)] + ([WildcardPattern(text[:-2])] if text.endswith(" *") else [])

    def fits(self, command: str) -> bool:
        return any(pattern.fits(command) for pattern in self._patterns)

    def may_fit(self, command: str) -> bool:
        return any(pattern.may_fit(command) for pattern in self._patterns)


class PathPattern:
    """A pattern over absolute paths. It begins at `base`, unless it is absolute itself or begins with `~`, which is `home`.

    One without a slash is for names: `everywhere`, or only below `base`. What fits a folder fits all that is in it.
    """

    __slots__ = ("_patterns",)

    def __init__(self, text: str, base: str, home: str, *, everywhere: bool) -> None:
        if text == "~" or text.startswith("~/"):
            text = f"{home}{text[1:]}"
        text = text.rstrip("/") or "/"
        if "/" not in text:
            text = f"/**/{text}" if everywhere else f"{base.rstrip('/')}/**/{text}"
        elif not text.startswith("/"):
            text = f"{base.rstrip('/')}/{text.removeprefix('./')}"
        below = "/**" if text == "/" else f"{text}/**"
        # File systems that do not tell upper from lower case are common enough; a rule that forbids must hold there too.
        self._patterns = [WildcardPattern(each, paths=True, fold=everywhere) for each in (text, below)]

    def matches(self, path: str) -> bool:
        return any(pattern.fits(path) for pattern in self._patterns)
