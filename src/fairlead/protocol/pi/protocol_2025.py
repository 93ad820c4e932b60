"""The protocol that pi spoke in 2025, before it had responses: three commands and eleven events."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from fairlead.protocol.pi.commands import Abort, Attachment, Command
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.session_commands import Compact


class Prompt2025(Command, tag="prompt", kw_only=True):
    """Start a run with a message from the user. The model sees attached images, and the texts of attached documents under their
    file names."""

    message: str
    attachments: list[Attachment] | None = None


class Compaction(Frame, tag="compaction", kw_only=True):
    """A summary has replaced the older part of the conversation. `auto` if fairlead decided to compact."""

    summary: str
    tokens_before: int
    auto: bool | UnsetType = UNSET


class Error(Frame, tag="error"):
    """A command is invalid or failed, or a compaction failed."""

    error: str


COMMANDS_2025: dict[str, type[Command]] = {"prompt": Prompt2025, "abort": Abort, "compact": Compact}

EVENTS_2025: frozenset[str] = frozenset(
    """agent_start agent_end turn_start turn_end message_start message_update message_end
    tool_execution_start tool_execution_end compaction error""".split()
)
