"""Stream rules in a session: they watch each answer as it arrives, cut off one that breaks a rule, and tell the model why.

`RuleWatch` compares what a model writes with the rules, and only says which rules match. Its caller feeds it with the stream,
cuts the request off and sends the rule to the model. New text is searched together with the 8,192 characters before it, so the
cost grows with the length of a text and not with its square. A longer match is found when the text is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from fairlead.config.settings import RuleSettings
from fairlead.core.events import ExtensionError, StreamRuleTriggered
from fairlead.core.messages import CustomMessage, TextContent, ThinkingContent
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart
from fairlead.core.tool import Tool
from fairlead.session.history.current import CurrentConversation
from fairlead.session.history.entries import STREAM_RULE, CustomMessageEntry, role_of
from fairlead.session.rules.rule_blocks import CompiledRule, RuleGroup, WatchedCall, WatchedText
from fairlead.session.rules.rule_patterns import TIME_LIMIT, Passage, PatternTimeout, RulePattern, occurs
from fairlead.session.rules.stream_rules import Rule, StreamKind, injection, reminder
from fairlead.session.session_events import Notify
from fairlead.session.toolbox import Toolbox
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.history.log import Log


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


#: Begins the error of an answer that was cut off. Hosts of omp know these words.
CUT_OFF = "TTSR matched rule"
#: How many answers of one run are cut off. A model may break a rule forever, however often it is told.
MOST_CUTS = 5


class RuleKeeper:
    """The stream rules of a session. It reads from the conversation which of them the model was told."""

    def __init__(
        self,
        rules: Sequence[Rule],
        settings: RuleSettings,
        current: CurrentConversation,
        workspace: Workspace,
        toolbox: Toolbox,
        now_ms: Callable[[], int],
        notify: Notify,
    ) -> None:
        self._rules = rules
        self._settings = settings
        self._current = current
        self._workspace = workspace
        self._toolbox = toolbox
        self._now_ms = now_ms
        self._notify = notify
        self._watch: RuleWatch | None = None
        #: The rules that cut the last answer off, and those that the model is told when it has finished.
        self._broken: list[Rule] = []
        self._to_be_told: list[Rule] = []
        self._kinds: dict[int, tuple[StreamKind, str | None]] = {}
        self._cuts = 0

    def begin_run(self) -> None:
        self._cuts = 0

    def begin(self) -> None:
        """A model is about to be asked."""
        if self._watch is None:
            self._watch = self._make_watch()
        self._watch.begin()
        self._broken, self._kinds = [], {}

    def saw(self, event: BlockStart | BlockDelta | BlockEnd) -> str | None:
        """Check what has arrived. Returns why the answer must end here; None if it may continue."""
        watch = self._watch
        if watch is None or self._broken:
            return None
        if isinstance(event, BlockStart):
            self._kinds[event.index] = _kind(event)
            return None
        kind, tool = self._kinds[event.index]
        if isinstance(event, BlockDelta):
            matched = watch.feed(kind, event.index, event.delta, tool=tool)
        else:
            matched = watch.end_block(event.index)
        if not matched:
            return None
        may_cut = self._cuts < MOST_CUTS
        self._broken = [rule for rule in matched if may_cut and watch.interrupts(rule, kind)]
        self._to_be_told += [rule for rule in matched if rule not in self._broken]
        if not self._broken:
            return None
        self._cuts += 1
        self._notify(StreamRuleTriggered(list(self._broken)))
        return f"{CUT_OFF}: {', '.join(rule.name for rule in self._broken)}"

    def injection(self) -> CustomMessage | None:
        """What the model is told about the answer that was just cut off; None if none was."""
        broken, self._broken = self._broken, []
        return self._message(broken, injection(broken)) if broken else None

    def reminder(self) -> CustomMessage | None:
        """What the model is told about rules that let it finish."""
        told, self._to_be_told = self._to_be_told, []
        return self._message(told, reminder(told)) if told else None

    @property
    def discards(self) -> bool:
        """Whether the model no longer sees an answer that was cut off."""
        return self._settings.context_mode == "discard"

    def reset(self) -> None:
        """The conversation is another one, or has moved within its tree."""
        self._watch = None
        self._broken, self._to_be_told = [], []

    def _message(self, rules: list[Rule], text: str) -> CustomMessage:
        assert self._watch is not None
        self._watch.mark_injected(rules)
        return CustomMessage(STREAM_RULE, text, False, self._now_ms(), {"rules": [rule.name for rule in rules]})

    def _make_watch(self) -> RuleWatch:
        log = self._current.begun_log
        turn, injected = _count_reminded(log) if log is not None else (0, dict[str, int]())
        return RuleWatch(
            self._rules,
            self._settings,
            cwd=str(self._workspace.cwd),
            tools=lambda: self._toolbox,
            injected=injected,
            turn=turn,
            on_off=self._report_switch_off,
        )

    def _report_switch_off(self, rule: Rule, why: str) -> None:
        self._notify(ExtensionError(rule.path, "rule", why))


def _kind(event: BlockStart) -> tuple[StreamKind, str | None]:
    match event.block:
        case TextContent():
            return "text", None
        case ThinkingContent():
            return "thinking", None
        case call:
            return "tool", call.name


def _count_reminded(log: Log) -> tuple[int, dict[str, int]]:
    """How many answers the conversation has, and after which of them the model was last told each rule."""
    turn, injected = 0, dict[str, int]()
    for entry in log.path():
        if role_of(entry) == "assistant":
            turn += 1
        elif isinstance(entry, CustomMessageEntry) and entry.custom_type == STREAM_RULE and entry.details is not UNSET:
            details: Any = entry.details
            names = cast("dict[str, Any]", details).get("rules") if isinstance(details, dict) else None
            for name in cast("list[Any]", names) if isinstance(names, list) else ():
                injected[str(name)] = turn
    return turn, injected
