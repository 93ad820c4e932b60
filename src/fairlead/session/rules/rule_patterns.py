"""The patterns of stream rules: compiled by google-re2, which takes linear time, else by `regex`, with a time limit.

Rules can come from untrusted projects, and a search with Python's `re` may never end. What re2 cannot express (look-around,
back-references) runs in `regex`, which stops a search after 50 ms of CPU. In both, `\\d`, `\\w`, `\\s` and `\b` mean ASCII. Both
libraries are imported when the first pattern is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, cast

#: Seconds of CPU that one search with `regex` may take.
TIME_LIMIT = 0.05


#: Compiling takes time too. Patterns written by hand are shorter.
_LONGEST_PATTERN = 5_000


#: One character of each kind that an assertion at the end of a match distinguishes: a letter and a line end.
_WHAT_MAY_FOLLOW = ("x", "\n")


class PatternError(ValueError):
    """Neither library accepts the pattern; the text says why."""


class PatternTimeout(Exception):
    """A search reached its time limit."""


class Passage:
    """Text to search. Matches begin at `start` or later; `^`, `\\b` and look-behind also see the text before it.

    A passage that is not `complete` is the end of a text that is still growing.
    """

    __slots__ = ("_data", "complete", "start", "text")

    def __init__(self, text: str, start: int = 0, *, complete: bool = True) -> None:
        self.text = text
        self.start = start
        self.complete = complete
        self._data: tuple[bytes, int] | None = None

    def data(self) -> tuple[bytes, int]:
        """Return the text as UTF-8, and the position of `start` in it."""
        if self._data is None:
            data = self.text.encode("utf-8", "replace")
            start = self.start if len(data) == len(self.text) else len(self.text[: self.start].encode("utf-8", "replace"))
            self._data = data, start
        return self._data

    def extend(self, text: str) -> Passage:
        return Passage(self.text + text, self.start)


class RulePattern(Protocol):
    """A compiled pattern."""

    source: str
    engine: Literal["re2", "regex"]

    def rest_after_match(self, passage: Passage) -> int | None:
        """Return the length of the passage after its first match; 0 if the match is at the end, None if there is no match.

        Raises PatternTimeout.
        """
        ...

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each match in a complete text. Raises PatternTimeout."""
        ...


def occurs(pattern: RulePattern, passage: Passage) -> bool:
    """Whether the pattern matches, and will still match when the text has grown. Raises PatternTimeout.

    A match at the end of an incomplete text may depend on that end: `\\bcat\\b` matches "cat", but not the "category" that it
    may become. Such a match counts only if it holds for any next character.
    """
    rest = pattern.rest_after_match(passage)
    if rest is None:
        return False
    if rest or passage.complete:
        return True
    return all(pattern.rest_after_match(passage.extend(text)) is not None for text in _WHAT_MAY_FOLLOW)


def compile_pattern(source: str) -> RulePattern:
    """Compile a regular expression. Raises PatternError."""
    if not source:
        raise PatternError("an empty pattern would match everything")
    if len(source) > _LONGEST_PATTERN:
        raise PatternError(f"it is longer than {_LONGEST_PATTERN:,} characters")
    if "\b" in source:
        raise PatternError(r"it contains a backspace, which \b means in double quotes. Use single quotes")
    compiled = _compile_re2(source)
    if compiled is not None:
        return _Re2Pattern(source, compiled)
    return _RegexPattern(source)


def either(patterns: Sequence[RulePattern]) -> RulePattern | None:
    """Return one pattern that matches where any of these does, in a single pass; None if there is no such pattern.

    Use it only for patterns of re2, whose cost hardly depends on the number of alternatives.
    """
    if len(patterns) == 1:
        return patterns[0]
    sources = [pattern.source for pattern in patterns]
    if any(r"\Q" in source for source in sources):  # an unclosed quotation would continue in the next alternative
        return None
    joined = "|".join(f"(?:{source})" for source in sources)
    compiled = _compile_re2(joined)
    return None if compiled is None else _Re2Pattern(joined, compiled)


def _compile_re2(source: str) -> Any:
    import re2  # noqa: PLC0415  takes 5 ms  # pyright: ignore[reportMissingTypeStubs]

    library = cast("Any", re2)
    options = library.Options()
    options.log_errors = False  # it would write to stderr
    options.never_capture = True
    try:
        return library.compile(source, options)
    except (library.error, UnicodeEncodeError):
        return None


class _Re2Pattern:
    engine: Literal["re2", "regex"] = "re2"

    def __init__(self, source: str, compiled: Any) -> None:
        self.source = source
        self._compiled = compiled

    def rest_after_match(self, passage: Passage) -> int | None:
        data, start = passage.data()
        match = self._compiled.search(data, start)
        return None if match is None else len(data) - match.end()

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        return (match.span() for match in self._compiled.finditer(text))


class _RegexPattern:
    engine: Literal["re2", "regex"] = "regex"

    def __init__(self, source: str) -> None:
        import regex  # noqa: PLC0415  takes 5 ms

        self.source = source
        try:
            self._compiled: Any = regex.compile(source, regex.ASCII)
        except RecursionError:
            raise PatternError("it is nested too deeply") from None
        except (regex.error, ValueError, OverflowError) as error:
            raise PatternError(str(error)) from None

    def rest_after_match(self, passage: Passage) -> int | None:
        try:
            match = self._compiled.search(passage.text, passage.start, timeout=TIME_LIMIT)
        except TimeoutError:
            raise PatternTimeout from None
        return None if match is None else len(passage.text) - match.end()

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        try:
            for match in self._compiled.finditer(text, timeout=TIME_LIMIT):
                yield match.span()
        except TimeoutError:
            raise PatternTimeout from None
