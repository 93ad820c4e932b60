"""Compares what a model writes with the stream rules, while it writes.

The watch only says which rules match. Its caller feeds it with the stream, cuts the request off and sends the rule to the model.
New text is searched together with the 8,192 characters before it, so the cost grows with the length of a text and not with its
square. A longer match is found when the text is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import UNSET

from fairlead.config.settings import RuleSettings
from fairlead.core.tool import Tool
from fairlead.session.rules.blocks import CompiledRule, RuleGroup, WatchedCall, WatchedText
from fairlead.session.rules.patterns import TIME_LIMIT, Passage, PatternTimeout, RulePattern, occurs
from fairlead.session.rules.rules import Rule, StreamKind


class RuleWatch:
    """The rules of one session, and which of them were sent to its model.

    `injected` maps the name of a rule to the turn in which it was last sent to the model; `turn` is the number of answers
    begun so far. Both are plain data: a new watch with the values of another one continues where that one stopped.

    `tools` returns the tools of the session, which declare where their arguments hold text for files.
    When a search takes too long, its rule is switched off and `on_off` is called with the rule and a sentence for the user.
    Raises PatternError if a condition cannot be compiled; the conditions of rules from `load_rules` can be.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        settings: RuleSettings | None = None,
        *,
        cwd: str = "",
        tools: Callable[[], Mapping[str, Tool]] = dict,
        injected: Mapping[str, int] | None = None,
        turn: int = 0,
        on_off: Callable[[Rule, str], object] | None = None,
    ) -> None:
        self.settings = settings or RuleSettings()
        self.injected: dict[str, int] = dict(injected or {})
        self.turn = turn
        #: How many characters were searched: a measure of the cost.
        self.searched = 0
        self._cwd = cwd
        self._tools = tools
        self._on_off = on_off
        disabled = self.settings.disabled_rules
        usable = [rule for rule in rules if rule.condition is not UNSET and rule.name not in disabled]
        self._rules = [CompiledRule(rule) for rule in usable] if self.settings.enabled else []
        #: The rules that can still match in this answer.
        self._open: dict[CompiledRule, None] = {}
        #: None for a block that no rule checks.
        self._blocks: dict[int, WatchedText | WatchedCall | None] = {}

    def begin(self) -> None:
        """Start a new answer."""
        self.turn += 1
        self._blocks.clear()
        self._open = {compiled: None for compiled in self._rules if self._may_be_sent(compiled.rule)}

    def feed(self, kind: StreamKind, index: int, delta: str, *, tool: str | None = None) -> list[Rule]:
        """Add `delta` to block `index` of the answer and return the rules that match now. Each is returned once in an answer.

        For a tool call, `tool` is the name of the tool, and the deltas are the JSON of its arguments.
        """
        if index not in self._blocks:
            self._blocks[index] = self._block(kind, tool)
        block = self._blocks[index]
        return [] if block is None else block.add(delta)

    def end_block(self, index: int) -> list[Rule]:
        """Complete block `index` and return the rules that match now."""
        block = self._blocks.pop(index, None)
        return [] if block is None else block.end()

    def interrupts(self, rule: Rule, kind: StreamKind) -> bool:
        """Whether a match in a block of this kind cuts the answer off. Otherwise the rule is sent to the model later."""
        mode = self.settings.interrupt_mode if rule.interrupt_mode is UNSET else rule.interrupt_mode
        return mode in ("always", "tool-only" if kind == "tool" else "prose-only")

    def mark_injected(self, rules: Sequence[Rule]) -> None:
        """Note that these rules were sent to the model."""
        for rule in rules:
            self.injected[rule.name] = self.turn

    def _may_be_sent(self, rule: Rule) -> bool:
        last_turn = self.injected.get(rule.name)
        if last_turn is None:
            return True
        mode = self.settings.repeat_mode if rule.repeat_mode is UNSET else rule.repeat_mode
        gap = self.settings.repeat_gap if rule.repeat_gap is UNSET else rule.repeat_gap
        return mode == "after-gap" and self.turn - last_turn > gap

    def _block(self, kind: StreamKind, tool: str | None) -> WatchedText | WatchedCall | None:
        rules = [compiled for compiled in self._open if compiled.may_look_at(kind, tool)]
        if not rules:
            return None
        if kind != "tool":
            return WatchedText(rules, self._test)
        return WatchedCall(tool, self._tools().get(tool or ""), rules, self._test, self._cwd)

    def _test(self, group: RuleGroup, passage: Passage) -> list[Rule]:
        """Return the rules that match and have not matched before in this answer."""
        group.narrow_down(self._open, len(self._open))
        a_fast_one_matches = group.any_fast is not None and self._occurs(group.any_fast, passage)
        rules = group.rules if a_fast_one_matches else group.slow
        matched = [compiled for compiled in rules if self._matches(compiled, passage)]
        for compiled in matched:
            del self._open[compiled]
        return [compiled.rule for compiled in matched]

    def _matches(self, compiled: CompiledRule, passage: Passage) -> bool:
        try:
            return any(self._occurs(pattern, passage) for pattern in compiled.patterns)
        except PatternTimeout:
            self._switch_off(compiled, passage)
            return False

    def _occurs(self, pattern: RulePattern, passage: Passage) -> bool:
        self.searched += len(passage.text)
        return occurs(pattern, passage)

    def _switch_off(self, compiled: CompiledRule, passage: Passage) -> None:
        self._rules.remove(compiled)
        del self._open[compiled]
        rule = compiled.rule
        if self._on_off is not None:
            self._on_off(
                rule,
                f"The rule {rule.name} is off for the rest of the session: it took more than {TIME_LIMIT * 1000:.0f} ms to search"
                f" {len(passage.text):,} characters. Simplify its condition in {rule.path}; one without look-around and"
                " back-references is never too slow.",
            )
