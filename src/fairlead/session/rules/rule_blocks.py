"""The blocks of an answer, as stream rules see them: text, thinking, and tool calls with the files that they change."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from fairlead.core import lenient
from fairlead.core.tool import KeyPath, Tool
from fairlead.session.rules.rule_patterns import Passage, RulePattern, compile_pattern, either
from fairlead.session.rules.stream_rules import Rule, Scope, StreamKind, scopes_of
from fairlead.tools import usual_file_texts
from fairlead.tools.search.globs import Glob

#: How many characters before new text a match that ends in it may begin.
LOOKBACK = 8_192
#: How many characters before those a look-behind may see.
_LOOKBEHIND = 256


class CompiledRule:
    """A rule with its compiled patterns. Raises PatternError if a condition cannot be compiled."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.patterns = [compile_pattern(source) for source in rule.condition or ()]
        self._scopes = [(scope, Glob(scope.glob) if scope.glob else None) for scope in scopes_of(rule)]
        self._globs = [Glob(glob) for glob in rule.globs or ()]

    def may_look_at(self, kind: StreamKind, tool: str | None) -> bool:
        """Whether the rule looks at such a block, or would if the block were about a matching file."""
        if self._globs and kind != "tool":
            return False
        return any(_is_about(scope, kind, tool) for scope, _ in self._scopes)

    def looks_at(self, kind: StreamKind, tool: str | None, path: Sequence[str] | None) -> bool:
        """Whether the rule looks at a block about the file at `path`; None: no file, or one that is not known yet."""
        if self._globs and (path is None or not any(glob.matches(path) for glob in self._globs)):
            return False
        return any(
            _is_about(scope, kind, tool) and (glob is None or (path is not None and glob.matches(path)))
            for scope, glob in self._scopes
        )


def _is_about(scope: Scope, kind: StreamKind, tool: str | None) -> bool:
    return scope.kind == kind and scope.tool in (None, tool)


class RuleGroup:
    """Rules that are tested together, on the blocks of one answer."""

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self.rules = rules
        self._open = -1
        #: Matches where any of the re2 patterns does. That is rare, and only then does it matter which one it was.
        self.any_fast: RulePattern | None = None
        #: The rules with a pattern that `any_fast` does not cover.
        self.slow: Sequence[CompiledRule] = ()

    def narrow_down(self, open_rules: Container[CompiledRule], count: int) -> None:
        """Drop the rules that are no longer open. `count` is the number of open rules, which only falls during an answer."""
        if count == self._open:
            return
        self._open = count
        self.rules = [rule for rule in self.rules if rule in open_rules]
        fast = [pattern for rule in self.rules for pattern in rule.patterns if pattern.engine == "re2"]
        self.any_fast = either(fast) if fast else None
        if self.any_fast is None:
            self.slow = self.rules
        else:
            self.slow = [rule for rule in self.rules if any(pattern.engine == "regex" for pattern in rule.patterns)]


#: Returns the rules of a group that match a passage and have not matched before in this answer.
Test: TypeAlias = Callable[[RuleGroup, Passage], list[Rule]]


class GrowingText:
    """A text while it arrives."""

    def __init__(self) -> None:
        self.complete = False
        self._parts: list[str] = []
        self._recent = ""

    def add(self, delta: str) -> Passage:
        """Add `delta`. Returns it with the text before it that a match may begin in."""
        before = self._recent[-LOOKBACK - _LOOKBEHIND :]
        self._parts.append(delta)
        self._recent = before + delta
        return Passage(self._recent, max(0, len(before) - LOOKBACK), complete=False)

    def whole(self) -> Passage:
        return Passage("".join(self._parts), complete=self.complete)


class WatchedText:
    """A block of text or thinking."""

    def __init__(self, rules: Sequence[CompiledRule], test: Test) -> None:
        self._rules = RuleGroup(rules)
        self._test = test
        self._text = GrowingText()

    def add(self, delta: str) -> list[Rule]:
        return self._test(self._rules, self._text.add(delta))

    def end(self) -> list[Rule]:
        self._text.complete = True
        return self._test(self._rules, self._text.whole())


class WatchedCall:
    """A tool call, by the name that the model wrote, and the tool with that name, if there is one.

    Rules look at each text that the tool puts into a file (`Tool.file_texts`); without such texts, at the JSON of the arguments.
    Rules about certain files look at it as soon as the path is known, which may be after the text.
    """

    def __init__(self, name: str | None, tool: Tool | None, rules: Sequence[CompiledRule], test: Test, cwd: str) -> None:
        self._name = name
        self._rules = rules
        self._test = test
        self._cwd = cwd
        #: The rules that look at it, given what is known of the path.
        self._looking = RuleGroup([rule for rule in rules if rule.looks_at("tool", name, None)])
        self._path_parts: list[str] = []
        self._json = GrowingText()
        file_texts = usual_file_texts(name) if tool is None else tool.file_texts
        self._texts: list[GrowingText] = [] if file_texts else [self._json]
        self._changes_file = bool(file_texts)
        self._path: KeyPath = (_path_argument(tool),)
        #: Some models write a list of edits as a string that is JSON itself.
        self._json_readers: dict[KeyPath, ArgumentReader] = {
            (keys[0],): ArgumentReader(file_texts, (keys[0],)) for keys in file_texts if len(keys) > 1
        }
        self._reader = ArgumentReader(file_texts | {self._path} | self._json_readers.keys())

    def add(self, delta: str) -> list[Rule]:
        passage = self._json.add(delta)
        matched = [] if self._changes_file else self._test(self._looking, passage)
        for piece in self._reader.feed(delta):
            if piece.key_path == self._path:
                matched += self._add_path(piece)
            elif (json_reader := self._json_readers.get(piece.key_path)) is not None:
                for inner in json_reader.feed(piece.text):
                    matched += self._add_text(inner)
            else:
                matched += self._add_text(piece)
        return matched

    def end(self) -> list[Rule]:
        matched: list[Rule] = []
        # If no text was where the tool expects it, rules look at all of the arguments.
        for text in self._texts or [self._json]:
            if not text.complete:
                text.complete = True
                matched += self._test(self._looking, text.whole())
        return matched

    def _add_text(self, piece: Piece) -> list[Rule]:
        if not self._texts or self._texts[-1].complete:
            self._texts.append(GrowingText())
        text = self._texts[-1]
        passage = text.add(piece.text)
        text.complete = piece.ended
        return self._test(self._looking, text.whole() if piece.ended else passage)

    def _add_path(self, piece: Piece) -> list[Rule]:
        self._path_parts.append(piece.text)
        if not piece.ended:
            return []
        names = _names("".join(self._path_parts), self._cwd)
        self._path_parts.clear()
        looking = [rule for rule in self._rules if rule.looks_at("tool", self._name, names)]
        new = RuleGroup([rule for rule in looking if rule not in self._looking.rules])
        self._looking = RuleGroup(looking)
        return [rule for text in self._texts for rule in self._test(new, text.whole())]


def _path_argument(tool: Tool | None) -> str:
    """The argument that names the file of a call. For a tool that does not say, `path` if it has one."""
    subject = None if tool is None else tool.subject
    return subject.argument if subject is not None and subject.kind == "path" else "path"


def _names(path: str, cwd: str) -> Sequence[str]:
    """The names in a path, relative to the working directory, or to the root if the path is outside."""
    absolute = Path(os.path.normpath(Path(cwd, path)))
    return absolute.relative_to(cwd).parts if absolute.is_relative_to(cwd) else absolute.parts


_UP_TO_STRUCTURE = re.compile(r'[^"{}\[\],:]*')
_HEX = "[0-9a-fA-F]"
_HIGH_SURROGATE = rf"u[dD][89abAB]{_HEX}{{2}}"
#: The characters of a string that can be decoded. The first half of a surrogate pair has to wait for what follows it.
_CHARACTERS = re.compile(
    r'(?:[^"\\]+|\\(?:["\\/bfnrt]|'
    rf"(?!{_HIGH_SURROGATE})u{_HEX}{{4}}|{_HIGH_SURROGATE}(?=[^\\]|\\u{_HEX}{{4}}|\\[^u])))*"
)
_UNFINISHED = re.compile(rf"\\(?:u{_HEX}{{0,3}}|{_HIGH_SURROGATE}(?:\\(?:u{_HEX}{{0,3}})?)?)?$")
#: Key paths are shorter than this, so values that are nested more deeply are skipped.
_DEEPEST = 4


class Piece(Struct, frozen=True):
    """A piece of a string that has arrived. `ended` marks the last piece."""

    key_path: KeyPath
    text: str
    ended: bool


class ArgumentReader:
    """Reads the strings at `key_paths`. `inside` is the key path of the JSON itself, if it is a string in other JSON.

    Invalid JSON ends the reading without an error: running the call reports what is wrong with it.
    """

    def __init__(self, key_paths: frozenset[KeyPath], inside: KeyPath = ()) -> None:
        self._key_paths = key_paths
        #: The current key of each open container; None for a list.
        self._keys: list[str | None] = list(inside)
        self._key_comes = False
        self._in_string = False
        #: The key path of the current string; None if it is a key or not one of the chosen strings.
        self._key_path: KeyPath | None = None
        self._key_parts: list[str] | None = None
        #: The beginning of an escape sequence whose end has not arrived.
        self._rest = ""
        self._broken = False

    def feed(self, delta: str) -> list[Piece]:
        """Read `delta` and return the pieces of the chosen strings in it."""
        pieces: list[Piece] = []
        text, self._rest = self._rest + delta, ""
        at = 0
        while at < len(text) and not self._broken:
            if not self._in_string:
                at = self._read_structure(text, at)
                continue
            start, at = at, _past(_CHARACTERS, text, at)
            ended = text[at : at + 1] == '"'
            characters = self._unescape(text[start:at])
            if self._key_parts is not None:
                self._key_parts.append(characters)
            elif self._key_path is not None and (characters or ended):
                pieces.append(Piece(self._key_path, characters, ended))
            if ended:
                self._end_string()
                at += 1
            elif at < len(text):
                self._rest = text[at:]
                self._broken = not _UNFINISHED.match(self._rest)
                break
        return pieces

    def _unescape(self, characters: str) -> str:
        if "\\" not in characters:
            return characters
        try:
            return str(lenient.decode(f'"{characters}"'))
        except ValueError:
            self._broken = True
            return ""

    def _read_structure(self, text: str, at: int) -> int:
        at = _past(_UP_TO_STRUCTURE, text, at)
        match text[at : at + 1]:
            case '"':
                self._begin_string()
            case "{":
                self._keys.append("")
                self._key_comes = True
            case "[":
                self._keys.append(None)
                self._key_comes = False
            case "}" | "]":
                if self._keys:
                    self._keys.pop()
                self._key_comes = False
            case ",":
                self._key_comes = bool(self._keys) and self._keys[-1] is not None
            case _:  # a colon, or the end of what has arrived
                self._key_comes = False if text[at : at + 1] else self._key_comes
        return at + 1

    def _begin_string(self) -> None:
        self._in_string = True
        if self._key_comes:
            self._key_parts = []
        elif len(self._keys) <= _DEEPEST:
            key_path = tuple(key for key in self._keys if key is not None)
            self._key_path = key_path if key_path in self._key_paths else None

    def _end_string(self) -> None:
        self._in_string = False
        self._key_path = None
        if self._key_parts is not None:
            self._keys[-1] = "".join(self._key_parts)
            self._key_parts = None
            self._key_comes = False


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the end of the match at `at` of a pattern that always matches."""
    found = pattern.match(text, at)
    return found.end() if found else at
