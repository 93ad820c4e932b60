"""Plan mode, in which the model may read but not change anything: `--plan` starts in it, `/plan` switches it on and off.

The mode is part of the session, so a resumed session is still in plan mode.
"""

from __future__ import annotations

from fairlead.extension import BeforeAgentStart, Context, Fairlead, Open, SessionStart

LOOKING = {"read", "grep", "find", "ls"}
RULE = "You are planning: look around, then say step by step what you would do. Change nothing."


def setup(fl: Fairlead) -> None:
    plans = fl.register_flag("plan", description="Start in plan mode")

    def switch(context: Context, on: bool) -> None:
        if on and not fl.state.get("before"):
            fl.state["before"] = fl.get_active_tools()
        every = [tool.name for tool in fl.get_all_tools()]
        fl.set_active_tools([name for name in every if name in (LOOKING if on else fl.state.get("before", every))])
        fl.state["on"] = on
        if not on:
            fl.state.pop("before", None)
        context.ui.set_status("plan", "planning" if on else None)

    @fl.on("session_start")
    def start(event: SessionStart, context: Context) -> None:
        if fl.state.get("on", plans):
            switch(context, True)

    @fl.register_command("plan", description="Switch plan mode on or off")
    def plan(arguments: str, context: Context) -> None:
        switch(context, not fl.state.get("on", False))

    @fl.on("before_agent_start")
    def explain(event: BeforeAgentStart) -> Open | None:
        return Open(system_prompt=f"{event.system_prompt}\n\n{RULE}") if fl.state.get("on") else None
