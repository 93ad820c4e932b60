"""Matches the patterns of approval rules and protected paths.

In a command pattern, `*` matches any text. In a path pattern, `*` matches within one name, and `**` matches across folders.

A text may contain unknown parts, written `ANY`. An "ask" or "deny" rule must match if *some* value of the unknown parts matches
(`may_fit`). An "allow" rule must match only if *every* value matches (`fits`). Matching takes time proportional to the length
of the pattern times the length of the text; it never backtracks.

`Words` describes the words of a command that a wildcard in an "allow" rule covers. See `fairlead.policy.wildcards`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

#: An unknown part of a text, of any length. Commands and paths cannot contain this character.
ANY = "\0"


#: One step of a pattern: a literal character, or one of the wildcards below.
_Step: TypeAlias = str


#: Any one character; any text within a name; any text; the start of `**/`; a folder that `**/` matches.
_ONE, _NAME, _ALL, _FOLDERS, _FOLDER = "?one", "*name", "**all", "**/start", "**/inside"


class WildcardPattern:
    """A pattern that matches a whole text.

    With `paths`, `*` and `?` do not match `/`, and `**` matches across folders. With `fold`, case is ignored.
    """

    __slots__ = ("_ending", "_fold", "_paths", "_steps")

    def __init__(self, text: str, *, paths: bool = False, fold: bool = False) -> None:
        self._paths = paths
        self._fold = fold
        self._steps = _steps(text.casefold() if fold else text, paths)
        wild = max((at for at, step in enumerate(self._steps) if len(step) > 1), default=-1)
        #: What every text that matches ends with.
        self._ending = "".join(self._steps[wild + 1 :])

    def fits(self, text: str) -> bool:
        """Return whether the text matches for every value of its unknown parts."""
        return self._run(text, certain=True)

    def may_fit(self, text: str) -> bool:
        """Return whether the text matches for some value of its unknown parts."""
        return self._run(text, certain=False)

    def _run(self, text: str, *, certain: bool) -> bool:
        steps = self._steps
        text = text.casefold() if self._fold else text
        if not text.endswith(self._ending) and ANY not in text:  # most names of files end here
            return False
        at = self._add_reachable({0})
        for character in text:
            if character == ANY:
                # An unknown part may match any number of steps. Only a step that matches any text is certain to match it.
                at = {each for each in at if self._takes_all(each)} if certain else set(range(min(at), len(steps) + 1))
            else:
                at = {then for each in at if each < len(steps) for then in self._after(each, character)}
            at = self._add_reachable(at)
            if not at:
                return False
        return len(steps) in at

    def _takes_all(self, at: int) -> bool:
        return at < len(self._steps) and (self._steps[at] == _ALL or (self._steps[at] == _NAME and not self._paths))

    def _after(self, at: int, character: str) -> tuple[int, ...]:
        """Return the positions after the step at `at` matches a character. Empty if it does not match."""
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

    def _add_reachable(self, at: set[int]) -> set[int]:
        """Add the positions that can be reached without matching a character."""
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
            if steps[-1:] != [_FOLDER]:  # several in a row mean the same
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
    """A pattern that matches one simple command. `git *` also matches `git` alone."""

    __slots__ = ("_patterns", "is_literal")

    def __init__(self, text: str) -> None:
        #: Whether it has no wildcards.
        self.is_literal = not _has_wildcard(text)
        self._patterns = [WildcardPattern(text)] + ([WildcardPattern(text[:-2])] if text.endswith(" *") else [])

    def fits(self, command: str) -> bool:
        return any(pattern.fits(command) for pattern in self._patterns)

    def may_fit(self, command: str) -> bool:
        return any(pattern.may_fit(command) for pattern in self._patterns)


class PathPattern:
    """A pattern that matches absolute paths. If it matches a folder, it also matches everything inside.

    Args:
        text: the pattern. `~` stands for `home`. A pattern without a slash matches names at any depth.
        base: the folder that relative patterns start from.
        home: the user's home folder.
        everywhere: for patterns that protect. A pattern without a slash then matches outside `base` too, and case is ignored.
    """

    __slots__ = ("_patterns", "fixed", "spelled")

    def __init__(self, text: str, base: str, home: str, *, everywhere: bool) -> None:
        if text == "~" or text.startswith("~/"):
            text = f"{home}{text[1:]}"
        text = text.rstrip("/") or "/"
        #: The names that the pattern has without wildcards.
        self.spelled = frozenset(name for name in text.split("/") if not _has_wildcard(name))
        if "/" not in text:
            text = f"/**/{text}" if everywhere else f"{base.rstrip('/')}/**/{text}"
        elif not text.startswith("/"):
            text = f"{base.rstrip('/')}/{text.removeprefix('./')}"
        names = text.split("/")
        #: The path before the first name with a wildcard.
        self.fixed = "/".join(names[: next((at for at, name in enumerate(names) if _has_wildcard(name)), None)]) or "/"
        below = "/**" if text == "/" else f"{text}/**"
        # Some file systems ignore case. A pattern that protects must hold there too.
        self._patterns = [WildcardPattern(each, paths=True, fold=everywhere) for each in (text, below)]

    def matches(self, path: str) -> bool:
        return any(pattern.fits(path) for pattern in self._patterns)


def _has_wildcard(text: str) -> bool:
    return bool(set(text) & set("*?"))


class Words(Struct, frozen=True, kw_only=True):
    """The words after the name of a program, or of a subcommand, that a wildcard covers.

    A value that is a separate word counts as an operand.
    """

    #: Letters of options, each alone or with others in one word. They have no value, or the value is the next word.
    flags: str = ""
    #: Letters of options that may have a value in the same word.
    valued: str = ""
    #: What such a value may be, as a regular expression.
    value: str = ".*"
    #: Names of long options, separated by blanks. Each may have a value after `=`.
    long: str = ""
    #: A regular expression for options that the fields above cannot describe.
    more: str | None = None
    #: A regular expression for operands. By default any word is harmless.
    operands: str = ".*"
    #: A regular expression for the first operand.
    first: str | None = None
    #: A regular expression for the first word, whether it is an option or an operand. Without words, it has to match nothing.
    first_word: str | None = None
    #: The minimum and the maximum number of operands. With a maximum, every word after the first operand counts as one, because
    #: not all systems look for options there.
    least: int = 0
    most: int | None = None
    #: Whether the wildcard covers all words after `--`, because they go to code that runs anyway.
    free_after_dashes: bool = False
    #: Whether the rule itself must name the first operand, for a wildcard to cover any operand.
    is_first_spelled: bool = False
    #: The subcommands that only read, and what they cover.
    subcommands: Mapping[str, Words] = {}
    #: The subcommands that change something or run code of the project. The rule itself must name them.
    when_spelled: Mapping[str, Words] = {}
    #: Options before the subcommand, separated by blanks.
    before: str = ""
    #: Options before the subcommand that a rule may spell, and that have a value in the next word.
    before_valued: str = ""
