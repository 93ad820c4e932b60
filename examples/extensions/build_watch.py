"""Tells other extensions over the bus when the model has run a build. See build_notifier.py for one that listens."""

from __future__ import annotations

from fairlead.extension import Fairlead, ToolResultEvent


def setup(fl: Fairlead) -> None:
    @fl.on("tool_result")
    def watch(event: ToolResultEvent) -> None:
        command = event.arguments.get("command", "")
        if event.tool_name == "bash" and command.startswith(("make", "cargo build", "npm run build")):
            fl.events.emit("build:done", {"command": command, "ok": not event.is_error})
