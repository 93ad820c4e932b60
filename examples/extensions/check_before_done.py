"""If the agent changed files, lets it stop only when a command succeeds: `--check "make test"`. Three attempts at most."""

from __future__ import annotations

from fairlead.extension import AgentBeforeSettle, Context, Continue, Fairlead, Note
from fairlead.messages import ToolResultMessage


def setup(fl: Fairlead) -> None:
    fl.register_flag("check", "string", description="A command that has to succeed before the agent is done")
    failures = 0

    @fl.on("before_agent_start")
    def begin() -> None:
        nonlocal failures
        failures = 0

    @fl.on("agent_before_settle", timeout=600)
    async def check(event: AgentBeforeSettle, context: Context) -> Continue | None:
        nonlocal failures
        command = fl.get_flag("check")
        changed = any(isinstance(each, ToolResultMessage) and each.tool_name in ("edit", "write") for each in event.messages)
        if not command or not (changed or failures) or failures == 3:
            return None
        done = await fl.exec("sh", ["-c", str(command)], cancel=context.cancel)
        if done.code == 0 or done.killed:
            return None
        failures += 1
        output = (done.stdout + done.stderr)[-2000:]
        return Continue([Note("check-failed", f"{command} failed with code {done.code}. Put that right:\n{output}")])
