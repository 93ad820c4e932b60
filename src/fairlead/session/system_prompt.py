"""The system prompt: what the model is told before the conversation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.core.lenient import scrub_text
from fairlead.core.tool import Tool
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from fairlead.session.additions import Additions, PromptParts

_INTRODUCTION = (
    "You are a coding agent. You work on the user's machine through the tools below: you read and change files, "
    "run commands, and report what you did. Another program relays the conversation between you and the user."
)

#: The same for a model with a small context window. The tools come with the request and need no list here.
_BRIEF_INTRODUCTION = (
    "You are a coding agent. You work in the user's project through tools: read files, change them with edit or write, run"
    " commands with bash. Use paths relative to the working directory."
)
#: The last words that a small model gets. Without them, many edit files that they have not read, and call tools again and again.
_BRIEF_END = (
    "Before you edit a file, read it: you do not know what is in it. In an edit, oldText is whole lines copied from the file, and"
    " newText is what these lines become. Use tools only as long as something is left to do. Never repeat a call that has"
    " succeeded. When the task is done, or needs no tool, answer in one or two sentences without a tool call."
)

#: The tools with which a model can read a skill.
_SKILL_READERS = ("read", "use_skill", "Skill")

_HABITS = (
    "Look before you change: read the files that matter, follow the conventions you find.",
    "Check your work by running it where that is possible.",
    "Answer briefly. Name files by their path.",
)


def system_prompt(
    cwd: Path,
    tools: Sequence[Tool],
    *,
    custom: str | None = None,
    appended: Sequence[str] = (),
    added: PromptParts | None = None,
    advice: Sequence[str] = (),
    more: Sequence[Path] = (),
    date: str,
    brief: bool = False,
) -> str:
    """The system prompt.

    Args:
        cwd: The working directory.
        tools: The tools that the model may use.
        custom: Replaces our part of the prompt; without it, the user's own replacement does, if there is one.
        appended: Texts that follow; without them, those of the user.
        added: What users add.
        advice: More guidelines in our part.
        more: The other directories of the workspace.
        date: The present day.
        brief: Whether the model has a small context window.
    """
    if custom is None and added is not None:
        custom = added.instead
    ours = _BRIEF_INTRODUCTION if brief else _ours(tools, advice)
    parts = [custom if custom is not None else ours, *appended]
    if added is not None:
        parts += [*(() if appended else added.appended), added.context]
        if any(tool.name in _SKILL_READERS for tool in tools):  # without one the model could not follow a skill
            parts.append(added.skills)
    place = [f"Current date: {date}", f"Current working directory: {scrub_text(str(cwd))}"]
    place += [f"Another directory of the workspace: {scrub_text(str(folder))}" for folder in more]
    parts.append("\n".join(place))
    if brief and custom is None:
        parts.append(_BRIEF_END)
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _ours(tools: Sequence[Tool], more: Sequence[str]) -> str:
    listed = "\n".join(f"- {tool.name}: {tool.snippet}" for tool in tools if tool.snippet)
    advice = dict.fromkeys([line for tool in tools for line in tool.guidelines])
    parts = [_INTRODUCTION]
    if listed:
        parts.append(f"Tools:\n{listed}")
    parts.append("Guidelines:\n" + "\n".join(f"- {line}" for line in (*advice, *more, *_HABITS)))
    return "\n\n".join(parts)


class SystemPrompt:
    """Makes the system prompt of a session, and keeps it until the directory, the tools, the day or the additions change."""

    def __init__(
        self,
        workspace: Workspace,
        custom: str | None,
        appended: Sequence[str],
        additions: Additions | None = None,
        *,
        advice: Sequence[str] = (),
    ) -> None:
        self._workspace = workspace
        self._custom = custom
        self._appended = appended
        self._additions = additions
        self._advice = advice
        self._made: tuple[tuple[PromptParts | str | None, ...], str] | None = None

    def __call__(self, tools: Sequence[Tool], *, brief: bool = False) -> str:
        """Return the system prompt for these tools. `brief`: for a model with a small context window."""
        date = time.strftime("%Y-%m-%d")
        cwd = self._workspace.cwd
        added = self._additions.prompt_parts(cwd) if self._additions is not None else None
        key = (added, date, str(cwd), str(brief), *(tool.name for tool in tools))
        if self._made is None or self._made[0] != key:
            text = system_prompt(
                cwd,
                tools,
                custom=self._custom,
                appended=self._appended,
                added=added,
                advice=self._advice,
                more=self._workspace.more,
                date=date,
                brief=brief,
            )
            self._made = key, text
        return self._made[1]
