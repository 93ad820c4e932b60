"""Whether a project may run code of its own: asking the user, and writing down what was decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fairlead.config.home import Home
from fairlead.config.trust import save_decision
from fairlead.core.ui import Ui
from fairlead.errors import ConfigError

#: Seconds that the user has to answer: a prompt waits meanwhile.
PATIENCE = 120.0


async def ask_user(ui: Ui, home: Home, project: Path, warn: Callable[[Sequence[str]], None]) -> bool | None:
    """Whether the user trusts a project, which is remembered if so; None if nobody says."""
    if not ui.available:
        return None
    question = f"{project} brings extensions or servers of its own. They run with all your rights. Trust it from now on?"
    if not await ui.confirm("Trust this project?", question, timeout=PATIENCE):
        return None
    remember(home, project, True, warn)
    return True


def remember(home: Home, project: Path, trusted: bool, warn: Callable[[Sequence[str]], None]) -> None:
    """Keep a decision for the runs to come. If that is not possible, it still holds for this one."""
    try:
        save_decision(home, project, trusted)
    except ConfigError as error:
        warn([f"{error} What was decided about {project} holds in this run alone."])
