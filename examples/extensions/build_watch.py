"""Announces builds that the model runs to other extensions, over the bus. See build_notifier.py for a listener."""

from __future__ import annotations

from fairlead.extension import Fairlead, ToolResultEvent


def setup(fl: Fairlead) -> None:
    @fl.on("tool_result")
    def watch(event: ToolResultEvent) -> None:
        command = event.arguments.get("command", "")
        if event.tool_name == "bash" and command.startswith(("make", "cargo build", "npm run build")):
            fl.events.emit("build:done", {"command": command, "ok": not event.is_error})
