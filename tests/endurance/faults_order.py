"""Checks the order of events: what begins also ends, once, and each run settles exactly once, with one outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.core import events as e

#: What begins and what ends it, by the names on the wire. Those after `agent_end` may happen outside a run too.
_PAIRS = {
    "agent_start": "agent_end",
    "turn_start": "turn_end",
    "message_start": "message_end",
    "tool_execution_start": "tool_execution_end",
    "auto_retry_start": "auto_retry_end",
    "compaction_start": "compaction_end",
    "auto_compaction_start": "auto_compaction_end",
}
_ENDS = {end: start for start, end in _PAIRS.items()}
#: Ends that may come without a beginning: a retry that is cancelled before it begins, and an overflow that no compaction helps.
_LONE_ENDS = frozenset({"auto_retry_end", "compaction_end", "auto_compaction_end"})
#: How the last answer of a run may end. One that calls tools is not the last.
_OUTCOMES = frozenset({"stop", "length", "error", "aborted"})
_OF_RUNS = frozenset({"agent_end", "turn_start", "turn_end", "tool_execution_start", "tool_execution_end", "auto_retry_start"})
_NAMES: Mapping[type, str] = {
    e.AgentStart: "agent_start",
    e.AgentEnd: "agent_end",
    e.AgentSettled: "agent_settled",
    e.TurnStart: "turn_start",
    e.TurnEnd: "turn_end",
    e.MessageStart: "message_start",
    e.MessageEnd: "message_end",
    e.ToolStart: "tool_execution_start",
    e.ToolEnd: "tool_execution_end",
    e.RetryStart: "auto_retry_start",
    e.RetryEnd: "auto_retry_end",
    e.CompactionStart: "compaction_start",
    e.CompactionEnd: "compaction_end",
}


class Order:
    """Follows the events of one session. `problems` says what was out of order, and `settled` how many runs have settled.

    With `holds_end`, as in omp and xcsh, several attempts have one `agent_end`.
    """

    def __init__(self, *, holds_end: bool = False) -> None:
        self.problems: list[str] = []
        self.settled = 0
        self.is_running = False
        #: How the last message ended; None: it is not an answer.
        self._outcome: str | None = None
        self._open: Counter[tuple[str, str]] = Counter()
        #: What may begin again before it has ended: a retry, with one event for each attempt.
        self._repeated = {"auto_retry_start", "agent_start"} if holds_end else {"auto_retry_start"}

    def hear(self, event: e.Event) -> None:
        """Follow an event of the library."""
        if isinstance(event, e.MessageEnd):
            self._outcome = getattr(event.message, "stop_reason", None)
        if type(event) in _NAMES:
            self.follow(_NAMES[type(event)], getattr(event, "call_id", ""))

    def hear_all(self, frames: Iterable[Mapping[str, Any]]) -> None:
        """Follow frames of the wire."""
        for frame in frames:
            if frame["type"] == "message_end":
                self._outcome = frame["message"].get("stopReason")
            self.follow(frame["type"], frame.get("toolCallId", ""))

    def follow(self, name: str, key: str = "") -> None:
        if name == "agent_start":
            self.is_running = True
        elif name in _OF_RUNS and not self.is_running:
            self.problems.append(f"{name} outside a run")
        if name == "agent_settled":
            self._settle()
        elif name in _PAIRS:
            if self._open[name, key] and name not in self._repeated:
                self.problems.append(f"{name} {key} twice".strip())
            self._open[name, key] += 1
        elif name in _ENDS:
            start = (_ENDS[name], key)
            if not self._open[start] and name not in _LONE_ENDS:
                self.problems.append(f"{name} {key} without its beginning".strip())
            self._open[start] = 0

    def _settle(self) -> None:
        if not self.is_running:
            self.problems.append("agent_settled twice")
        elif self._outcome not in _OUTCOMES:
            self.problems.append(f"agent_settled after a message that ended with {self._outcome}")
        self.is_running, self._outcome = False, None
        self.settled += 1
        self.check_end("agent_settled")

    def check_end(self, when: str) -> None:
        """Note what has not ended, although nothing is going on any more."""
        unended = [f"{name} {key}".strip() for (name, key), count in self._open.items() if count]
        if unended:
            self.problems.append(f"not ended at {when}: {', '.join(unended)}")
        self._open.clear()
