"""Taking up a conversation that has begun before: its choices, the place of its work, and what waits in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.core.messages import BashExecutionMessage
from fairlead.session.history.queue_log import undelivered

if TYPE_CHECKING:
    from fairlead.session.session import Session
    from fairlead.tools.workspace import Workspace


def resume(session: Session, *, model: bool, level: bool) -> list[str]:
    """Go on as the conversation left off; with its model and thinking level, if those are wanted. Returns what is wrong."""
    conversation = session.conversation
    log = conversation.log
    problems = [*conversation.problems, *session.selection.take_over(log, model=model, level=level)]
    problems += _follow(session.workspace, log.header.cwd)
    for waiting in undelivered(log):
        if isinstance(waiting.message, BashExecutionMessage):
            conversation.add(waiting.message)
        else:
            session.intake.restore(waiting.queue, waiting.message)
    return problems


def _follow(workspace: Workspace, cwd: str) -> list[str]:
    """Work where the conversation took place, as pi does."""
    if not cwd or Path(cwd) == workspace.cwd:
        return []
    try:
        is_folder = Path(cwd).is_dir()
    except OSError:
        is_folder = False
    if is_folder:
        workspace.cwd = Path(cwd)
        return []
    return [f"The session's working directory {cwd} does not exist any more; work goes on in {workspace.cwd}."]
