"""What outlives a process that is killed while tools run: which calls have started, and the results of those that have ended."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Protocol

from msgspec import Struct

from fairlead.core.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage

INTERRUPTED = "The call was interrupted; it may have run. Check what it has done before you repeat it."
RESULT_LOST = "The call was interrupted; it has run, but its result was lost. Check what it has done before you repeat it."


class CallJournal(Protocol):
    """Stores the progress of tool calls. Each method returns when the fact would survive the end of the process."""

    def waits(self, call: ToolCall) -> None:
        """The call waits for approval, so its tool has not started."""
        ...

    def started(self, call: ToolCall) -> None:
        """The tool is about to start."""
        ...

    def ended(self, result: ToolResultMessage, *, may_change: bool) -> None:
        """The call has ended, but its result is not part of the conversation yet.

        With `may_change`, an extension may still replace the result, for example to remove a secret. It is not stored then,
        only that the call has ended.
        """
        ...


class InterruptedCalls(Struct, frozen=True):
    """An answer of the model with calls that its run has not finished. Calls are named by their ids."""

    message: AssistantMessage
    #: The results that are part of the conversation.
    told: Mapping[str, ToolResultMessage]
    #: The results of calls that ended, but are not part of the conversation yet.
    ended: Mapping[str, ToolResultMessage]
    #: The calls that have not started. Any other may have run.
    unstarted: Set[str]

    def unanswered(self) -> list[ToolCall]:
        """The calls without a result in the conversation, in call order."""
        return [call for call in self.message.tool_calls() if call.id not in self.told]


def interrupted_result(call: ToolCall, now_ms: int, text: str = INTERRUPTED) -> ToolResultMessage:
    """Return the result of a call that may have run."""
    return ToolResultMessage(call.id, call.name, [TextContent(text)], True, now_ms)
