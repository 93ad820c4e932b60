"""Stream rules in a session: they watch each answer as it arrives, cut off one that breaks a rule, and tell the model why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from fairlead.config.settings import RuleSettings
from fairlead.core.events import ExtensionError, StreamRuleTriggered
from fairlead.core.messages import CustomMessage, TextContent, ThinkingContent
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart
from fairlead.session.events import Notify
from fairlead.session.history.current import CurrentConversation
from fairlead.session.history.entries import STREAM_RULE, CustomMessageEntry, role_of
from fairlead.session.rules.rules import Rule, StreamKind, injection, reminder
from fairlead.session.rules.watch import RuleWatch
from fairlead.session.toolbox import Toolbox
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.history.log import Log

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
            self._watch = self._made()
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

    def _made(self) -> RuleWatch:
        log = self._current.begun_log
        turn, injected = _told_so_far(log) if log is not None else (0, dict[str, int]())
        return RuleWatch(
            self._rules,
            self._settings,
            cwd=str(self._workspace.cwd),
            tools=lambda: self._toolbox,
            injected=injected,
            turn=turn,
            on_off=self._switched_off,
        )

    def _switched_off(self, rule: Rule, why: str) -> None:
        self._notify(ExtensionError(rule.path, "rule", why))


def _kind(event: BlockStart) -> tuple[StreamKind, str | None]:
    match event.block:
        case TextContent():
            return "text", None
        case ThinkingContent():
            return "thinking", None
        case call:
            return "tool", call.name


def _told_so_far(log: Log) -> tuple[int, dict[str, int]]:
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
