"""Shell commands that the host runs for its user, as opposed to those of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.core.messages import BashExecutionMessage
from fairlead.core.runtime import Cancel
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.tools.truncate import Truncation


class BashDone(Struct):
    message: BashExecutionMessage
    truncation: Truncation


async def run_for_user(
    workspace: Workspace, command: str, cancel: Cancel, now_ms: Callable[[], int], *, exclude_from_context: bool
) -> BashDone:
    """Run `command` to its end; colours and control characters are taken out of its output."""
    from fairlead.tools.process import run_shell

    result = await run_shell(workspace, command, cancel=cancel, timeout=None, clean=True)
    message = BashExecutionMessage(
        command=command,
        output=result.output,
        cancelled=result.cancelled,
        truncated=result.truncation.truncated,
        timestamp=now_ms(),
        exit_code=None if result.cancelled else result.exit_code,
        full_output_path=result.full_output_path,
        exclude_from_context=exclude_from_context,
    )
    return BashDone(message, result.truncation)
