"""Sets the window title to the name of the session, and notifies the user when the name changes."""

from __future__ import annotations

from fairlead.events import SessionInfoChanged
from fairlead.extension import Context, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.on("session_start")
    def first(event: object, context: Context) -> None:
        context.ui.set_title(fl.get_session_name() or context.cwd.name)

    @fl.on("session_info_changed")
    def update_title(event: SessionInfoChanged, context: Context) -> None:
        context.ui.set_title(event.name or context.cwd.name)
