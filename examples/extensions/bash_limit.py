"""Adds a time limit to shell commands that have none: `--bash-limit 60`, in seconds.

A handler may change the arguments of a call.
"""

from __future__ import annotations

from fairlead.extension import Fairlead, ToolCallEvent


def setup(fl: Fairlead) -> None:
    fl.register_flag("bash-limit", "string", "60", "Seconds that a shell command may take")

    @fl.on("tool_call")
    def limit(event: ToolCallEvent) -> None:
        if event.tool_name == "bash":
            event.arguments.setdefault("timeout", float(str(fl.get_flag("bash-limit"))))
