"""One handler for each command of the family, and for those of pi in 2025."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairlead.errors import BadCommand
from fairlead.protocol.pi.command import Command
from fairlead.protocol.pi.protocol_2025 import Prompt2025
from fairlead.wire.pi import host_handlers, omp_handlers, session_handlers, subagent_handlers
from fairlead.wire.pi.handlers import BASIC_HANDLERS, BASIC_LATE, submit

if TYPE_CHECKING:
    from fairlead.wire.pi.server import Server


async def _prompt_2025(server: Server, command: Prompt2025) -> Any:
    for attached in command.attachments or ():
        if attached.type == "document" and attached.extracted_text is None:
            raise BadCommand(
                f"The attachment {attached.file_name} is a document without extractedText: there is no text of it for the model."
            )
    prompt = server.session.prompt(command.message, attachments=command.attachments, source="rpc")
    return await submit(server, command, prompt)


HANDLERS: dict[type[Command], Callable[..., Any]] = {
    **BASIC_HANDLERS,
    **session_handlers.HANDLERS,
    **subagent_handlers.HANDLERS,
    **omp_handlers.HANDLERS,
    **host_handlers.HANDLERS,
    Prompt2025: _prompt_2025,
}

#: Commands that may be answered after ones that came later.
LATE: frozenset[type[Command]] = BASIC_LATE | session_handlers.LATE | omp_handlers.LATE
