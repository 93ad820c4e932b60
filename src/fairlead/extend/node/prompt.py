"""What the system prompt consists of, in pi's form, and what an extension's changes to that make of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from fairlead.config.files import read_bytes
from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from fairlead.session.session import Session


def prompt_options(session: Session) -> dict[str, Any]:
    """Return the parts of the system prompt as pi's extensions see them."""
    additions, tools = session.additions, session.tools.active_tools()
    files = [{"path": str(path), "content": _text(path)} for path in additions.context_files()]
    return {
        "cwd": str(session.host.workspace.cwd),
        "selectedTools": list(tools),
        "hiddenTools": [name for name in tools if name not in session.tools.declared_tools()],
        "toolSnippets": {name: tool.snippet for name, tool in tools.items() if tool.snippet},
        "toolGuidelines": {name: list(tool.guidelines) for name, tool in tools.items() if tool.guidelines},
        "promptGuidelines": [],
        "sections": {},
        # What is appended already is part of the prompt. An extension may add to this.
        "appendSystemPrompt": "",
        "contextFiles": files,
        "skills": [{"name": skill.name, "description": skill.description} for skill in additions.skills()],
    }


def _text(path: Path) -> str:
    """Return the text of a file with instructions; nothing if it can no longer be read."""
    try:
        return (read_bytes(path) or b"").decode("utf-8", "replace")
    except ConfigError:
        return ""


def changed_prompt(session: Session, prompt: str, options: Mapping[str, Any]) -> str | None:
    """Return the system prompt with what an extension added to its parts; None if it added nothing.

    A changed selection of tools applies at once.
    """
    chosen = options.get("selectedTools")
    if isinstance(chosen, list):
        names = [name for name in cast("list[str]", chosen) if name in session.tools]
        if names != session.tools.active:
            session.tools.activate(names)
    forced = options.get("forceSystemPrompt")
    if isinstance(forced, str):
        return forced
    sections = cast("dict[str, Any]", options.get("sections") or {})
    parts = [f"<{name}>\n{text}\n</{name}>" for name, text in sections.items() if text]
    rules = [f"- {str(rule).removeprefix('- ')}" for rule in options.get("promptGuidelines") or ()]
    appended = options.get("appendSystemPrompt")
    more = [*parts, "\n".join(rules), appended if isinstance(appended, str) else ""]
    added = [part for part in more if part]
    return "\n\n".join([prompt, *added]) if added else None
