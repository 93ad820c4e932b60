"""Glob patterns over paths: `*`, `?`, `[a-z]` within a name, `**` for any folders, `{a,b}` for either.

The time to match grows with pattern times path at most, for any pattern: patterns come from models and from files
that strangers wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fairlead.errors import ToolError

NameMatcher = Callable[[str], bool]

_MAX_ALTERNATIVES = 256
_MAGIC = re.compile(r"[*?\[\\]")


class PathGlob:
    """A pattern of several names. `**` stands for any number of folders; at the end, for anything inside."""

    __slots__ = ("_names",)

    def __init__(self, pattern: str) -> None:
        #: None stands for `**`.
        self._names: list[NameMatcher | None] = []
        for name in pattern.split("/"):
            if name != "**":
                self._names.append(name_matcher(name))
            elif not self._names or self._names[-1] is not None:
                self._names.append(None)
        if self._names[-1] is None:
            self._names.append(_any_name)

    def matches(self, parts: Sequence[str]) -> bool:
        names = self._names
        at = name = 0
        # Where to continue after the last `**` took one folder more; earlier ones never need to be reconsidered.
        retry_at = retry_name = -1
        while at < len(parts):
            matcher = names[name] if name < len(names) else _no_name
            if matcher is None:
                retry_at, retry_name = at, name + 1
                name += 1
            elif matcher(parts[at]):
                at += 1
                name += 1
            elif retry_name < 0:
                return False
            else:
                retry_at += 1
                at, name = retry_at, retry_name
        return name == len(names)


class Glob:
    """What `find` and `grep` take: a pattern without a slash is for names, at any depth; one with a slash, for the ends of paths.

    A slash in front ties it to the folder searched.
    """

    __slots__ = ("_names", "_paths")

    def __init__(self, pattern: str) -> None:
        self._names: list[NameMatcher] = []
        self._paths: list[PathGlob] = []
        for alternative in alternatives(pattern.removeprefix("./")):
            if "/" not in alternative.rstrip("/"):
                self._names.append(name_matcher(alternative.rstrip("/")))
            elif alternative.startswith("/"):
                self._paths.append(PathGlob(alternative.strip("/")))
            else:
                self._paths.append(PathGlob("**/" + alternative.rstrip("/")))

    def matches(self, parts: Sequence[str]) -> bool:
        return any(matches(parts[-1]) for matches in self._names) or any(path.matches(parts) for path in self._paths)


def chooser(glob: str) -> Callable[[Sequence[str]], bool]:
    """Tells whether grep should search a file. A glob after `!` excludes; an empty one chooses all."""
    if not glob:
        return lambda _: True
    pattern, excluding = Glob(glob.removeprefix("!")), glob.startswith("!")
    return lambda parts: pattern.matches(parts) != excluding


def name_matcher(pattern: str) -> NameMatcher:
    """Tells whether a single file name matches."""
    if not _MAGIC.search(pattern):
        return pattern.__eq__
    suffix = pattern[1:]
    if pattern.startswith("*") and not _MAGIC.search(suffix):
        return lambda name: name.endswith(suffix)
    try:
        matches = re.compile(_translate(pattern), re.DOTALL).fullmatch
    except re.error as error:
        raise ToolError(f"{pattern} is not a usable glob pattern: {error}") from error
    return lambda name: matches(name) is not None


def _translate(pattern: str) -> str:
    """Translate a pattern to a regular expression. What follows a star is an atomic group, so that matching does not try
    every way to divide a name among the stars."""
    pieces = [""]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        elif character == "?":
            pieces[-1] += "."
        elif character == "[" and (end := _class_end(pattern, at)) > 0:
            pieces[-1] += _character_class(pattern[at:end])
            at = end + 1
        elif character == "\\" and at < len(pattern):
            pieces[-1] += re.escape(pattern[at])
            at += 1
        else:
            pieces[-1] += re.escape(character)
    if len(pieces) == 1:
        return pieces[0]
    return pieces[0] + "".join(f"(?>.*?{piece})" for piece in pieces[1:-1]) + ".*" + pieces[-1]


def _class_end(pattern: str, start: int) -> int:
    """Return where the bracket closes; a bracket that comes first is a member of the class."""
    first = start + 1 if pattern[start : start + 1] in ("!", "^") else start
    return pattern.find("]", first + 1)


def _character_class(members: str) -> str:
    negated = members[:1] in ("!", "^")
    if negated:
        members = members[1:]
    members = re.sub(r"([\\\[\]^&~|])", r"\\\1", members)
    return f"[{'^' if negated else ''}{members}]"


def alternatives(pattern: str) -> list[str]:
    """Return the patterns that `{a,b}` stands for."""
    done: list[str] = []
    unexpanded = [pattern]
    while unexpanded:
        current = unexpanded.pop()
        found = re.search(r"(?<!\\)\{([^{}]*,[^{}]*)\}", current)
        if found is None:
            done.append(current)
        else:
            unexpanded += [current[: found.start()] + choice + current[found.end() :] for choice in found[1].split(",")]
        if len(done) + len(unexpanded) > _MAX_ALTERNATIVES:
            raise ToolError(f"The braces in {pattern} stand for more than {_MAX_ALTERNATIVES} patterns. Use a simpler one.")
    return done


def _any_name(_: str) -> bool:
    return True


def _no_name(_: str) -> bool:
    return False
