"""The parts of an answer, as the stream rules see them: text, thinking, and calls of tools with the files they change."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from fairlead.session.rules.arguments import ArgumentReader, KeyPath, Piece
from fairlead.session.rules.patterns import Passage, Pattern, compile_pattern, either
from fairlead.session.rules.rules import Rule, Scope, StreamKind, scopes_of
from fairlead.tools.globs import Glob

#: How far before new text a match of it may begin.
LOOKBACK = 8_192
#: How much of the text before that look-behind may see.
_CONTEXT = 256

_PATH: KeyPath = ("path",)
_EDITS: KeyPath = ("edits",)
#: Where the tools that change files are given the text to put there.
_FILE_TEXTS: Mapping[str, frozenset[KeyPath]] = {
    "write": frozenset({("content",)}),
    "edit": frozenset({("edits", "newText"), ("newText",)}),
    "write_file": frozenset({("content",)}),
    "edit_file": frozenset({("new_string",)}),
}


class CompiledRule:
    """A rule, ready for use. Raises PatternError if a condition of it cannot be compiled."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.patterns = [compile_pattern(source) for source in rule.condition or ()]
        self._scopes = [(scope, Glob(scope.glob) if scope.glob else None) for scope in scopes_of(rule)]
        self._globs = [Glob(glob) for glob in rule.globs or ()]

    def may_look_at(self, kind: StreamKind, tool: str | None) -> bool:
        """Whether it looks at such a block, or would if the block were about a certain file."""
        if self._globs and kind != "tool":
            return False
        return any(_is_about(scope, kind, tool) for scope, _ in self._scopes)

    def looks_at(self, kind: StreamKind, tool: str | None, path: Sequence[str] | None) -> bool:
        """Whether it looks at a block about the file at `path`; None: about no file, or one that is not known yet."""
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
        #: Matches where any pattern of re2 does: hardly ever, and only then it matters which.
        self.any_fast: Pattern | None = None
        #: Those with a pattern that `any_fast` does not stand for.
        self.slow: Sequence[CompiledRule] = ()

    def narrow_down(self, open_rules: Container[CompiledRule], count: int) -> None:
        """Forget the rules that are no longer open. `count` is how many are: it only ever falls in an answer."""
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


#: Gives those of some rules that match a passage and did not before in this answer.
Test: TypeAlias = Callable[[RuleGroup, Passage], list[Rule]]


class GrowingText:
    """A text while it arrives."""

    def __init__(self) -> None:
        self.complete = False
        self._parts: list[str] = []
        self._recent = ""

    def add(self, delta: str) -> Passage:
        """The new text, with as much of the text before it as a match may reach back into."""
        before = self._recent[-LOOKBACK - _CONTEXT :]
        self._parts.append(delta)
        self._recent = before + delta
        return Passage(self._recent, max(0, len(before) - LOOKBACK), complete=False)

    def whole(self) -> Passage:
        return Passage("".join(self._parts), complete=self.complete)


class Block:
    """Text or thinking."""

    def __init__(self, rules: Sequence[CompiledRule], test: Test) -> None:
        self._rules = RuleGroup(rules)
        self._test = test
        self._text = GrowingText()

    def add(self, delta: str) -> list[Rule]:
        return self._test(self._rules, self._text.add(delta))

    def end(self) -> list[Rule]:
        self._text.complete = True
        return self._test(self._rules, self._text.whole())


class CallBlock:
    """A call of a tool.

    For edit and write, the text is what they put into the file, each piece by itself; for other tools, the JSON of the
    arguments. Rules about certain files look at it as soon as the path is known, which may be after the text.
    """

    def __init__(self, tool: str | None, rules: Sequence[CompiledRule], test: Test, cwd: str) -> None:
        self._tool = tool
        self._rules = rules
        self._test = test
        self._cwd = cwd
        #: Those of the rules that look at it, with what is known of the path.
        self._looking = RuleGroup([rule for rule in rules if rule.looks_at("tool", tool, None)])
        self._path_parts: list[str] = []
        self._json = GrowingText()
        file_texts = _FILE_TEXTS.get(tool or "")
        self._texts: list[GrowingText] = [] if file_texts else [self._json]
        self._changes_file = file_texts is not None
        self._reader = ArgumentReader((file_texts or frozenset()) | {_PATH, _EDITS})
        #: Some models write all edits as a text that is JSON itself.
        self._edits_reader = ArgumentReader(file_texts or frozenset(), _EDITS)

    def add(self, delta: str) -> list[Rule]:
        passage = self._json.add(delta)
        matched = [] if self._changes_file else self._test(self._looking, passage)
        for piece in self._reader.feed(delta):
            if piece.key_path == _PATH:
                matched += self._add_path(piece)
            elif piece.key_path == _EDITS:
                for inner in self._edits_reader.feed(piece.text):
                    matched += self._add_text(inner)
            else:
                matched += self._add_text(piece)
        return matched

    def end(self) -> list[Rule]:
        matched: list[Rule] = []
        # A tool of that name that is not ours has its text elsewhere.
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
        looking = [rule for rule in self._rules if rule.looks_at("tool", self._tool, names)]
        new = RuleGroup([rule for rule in looking if rule not in self._looking.rules])
        self._looking = RuleGroup(looking)
        return [rule for text in self._texts for rule in self._test(new, text.whole())]


def _names(path: str, cwd: str) -> Sequence[str]:
    """The names that a path consists of, from the working directory on, or from the root if it is elsewhere."""
    absolute = Path(os.path.normpath(Path(cwd, path)))
    return absolute.relative_to(cwd).parts if absolute.is_relative_to(cwd) else absolute.parts
