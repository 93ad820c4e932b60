"""Logs what is added to the session, what needs approval and what the user is asked: `--audit FILE`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairlead.events import ToolApprovalRequested, ToolApprovalResolved, UiPromptEnd, UiPromptStart
from fairlead.extension import EntryAppended, Fairlead


def setup(fl: Fairlead) -> None:
    path = Path(str(fl.register_flag("audit", "string", "audit.jsonl", "Where to keep the record")))

    def record(what: str, **about: Any) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"what": what, **about}) + "\n")

    @fl.on("entry_appended")
    def log_entry(event: EntryAppended) -> None:
        record("entry", type=event.entry["type"], id=event.entry["id"])

    @fl.on("tool_approval_requested")
    def log_request(event: ToolApprovalRequested) -> None:
        record("consent asked for", tool=event.tool_name, arguments=event.arguments)

    @fl.on("tool_approval_resolved")
    def log_decision(event: ToolApprovalResolved) -> None:
        record("consent", tool=event.tool_name, approved=event.approved, by=event.by)

    @fl.on("ui_prompt_start")
    def log_question(event: UiPromptStart) -> None:
        record("asked", kind=event.kind, title=event.title)

    @fl.on("ui_prompt_end")
    def log_answer(event: UiPromptEnd) -> None:
        record("answered", kind=event.kind, title=event.title)
