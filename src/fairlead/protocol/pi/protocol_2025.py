"""The protocol of pi in 2025, before it had responses: three commands, eleven events."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from fairlead.core.messages import Attachment
from fairlead.protocol.pi.command import Command
from fairlead.protocol.pi.commands import Abort
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.session_commands import Compact


class Prompt2025(Command, tag="prompt", kw_only=True):
    """Give the agent something to do. Images among the attachments are shown to the model, of documents it is told the
    `extractedText`, under the file's name."""

    message: str
    attachments: list[Attachment] | None = None


class Compaction(Frame, tag="compaction", kw_only=True):
    """The older part of the conversation was replaced by a summary; `auto` if that happened by itself."""

    summary: str
    tokens_before: int
    auto: bool | UnsetType = UNSET


class Error(Frame, tag="error"):
    """A command could not be understood or carried out, or a compaction failed."""

    error: str


COMMANDS_2025: dict[str, type[Command]] = {"prompt": Prompt2025, "abort": Abort, "compact": Compact}

EVENTS_2025: frozenset[str] = frozenset(
    """agent_start agent_end turn_start turn_end message_start message_update message_end
    tool_execution_start tool_execution_end compaction error""".split()
)
