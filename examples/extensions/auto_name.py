"""Names a session after its first prompt."""

from __future__ import annotations

from fairlead.extension import BeforeAgentStart, Fairlead


def setup(fl: Fairlead) -> None:
    @fl.on("before_agent_start")
    def name(event: BeforeAgentStart) -> None:
        if fl.get_session_name() is None:
            first_line = event.prompt.strip().partition("\n")[0]
            fl.set_session_name(first_line[:40] or "Untitled")
