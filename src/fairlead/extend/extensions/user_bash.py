"""A shell command of the host's that an extension ran."""

from __future__ import annotations

from fairlead.core.lenient import scrub_text
from fairlead.core.messages import BashExecutionMessage
from fairlead.extend.extensions.results import Ran
from fairlead.session.user_bash import BashDone
from fairlead.tools.truncate import count_lines, tail


def done(command: str, exclude_from_context: bool, ran: Ran, now_ms: int) -> BashDone:
    """What came of it, as if it had been run here."""
    output = scrub_text(ran.output)
    truncation = tail(output, count_lines(output), len(output.encode()))
    message = BashExecutionMessage(
        command=command,
        output=truncation.content,
        cancelled=ran.cancelled,
        truncated=ran.truncated or truncation.truncated,
        timestamp=now_ms,
        exit_code=None if ran.cancelled else ran.exit_code,
        full_output_path=ran.full_output_path,
        exclude_from_context=exclude_from_context,
    )
    return BashDone(message, truncation)
