"""Asking for consent before a tool runs, where the settings want that, and telling the model if there is none."""

from __future__ import annotations

import asyncio
import os
import stat
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from fairlead.config.home import user_folder
from fairlead.core.calls import ABORTED
from fairlead.core.events import Event, SessionReplaced, ToolApprovalRequested, ToolApprovalResolved
from fairlead.core.lenient import scrub
from fairlead.core.runtime import Cancel
from fairlead.core.tool import ApprovedFile, Tool
from fairlead.errors import ToolError
from fairlead.policy.approvals import Policy, Subject, Surroundings
from fairlead.session.run.run import report

if TYPE_CHECKING:
    from fairlead.session.session import Session

#: Tools whose calls are about a command, and about a file, whoever brought a tool of that name.
COMMAND_TOOLS = frozenset(("bash", "shell"))
PATH_TOOLS = frozenset(("edit", "edit_file", "find", "grep", "ls", "read", "read_file", "write", "write_file"))
#: Shells whose grammar rules for commands are written for.
KNOWN_SHELLS = frozenset(("bash", "dash", "sh"))
#: How much of what a call is about is shown to the person who is asked.
SHOWN = 4000

_INSTEAD = "Do not try to do the same in another way: go on without it, or tell the user why it is needed."


class Approvals:
    """Implements `fairlead.core.tool.Approver`, for a session and all sub-agents below it.

    What was allowed for the session is kept in this process, until the session goes on with another conversation.
    """

    def __init__(self, policy: Policy, timeout: float) -> None:
        self._policy = policy
        self._timeout = timeout
        self._session: Session | None = None
        self._allowed: set[tuple[str, str, tuple[int, int] | None]] = set()

    def attach(self, session: Session) -> None:
        """Ask whoever is behind this session."""
        self._session = session
        session.subscribe(self._hear)

    async def check(self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: Cancel) -> ApprovedFile | None:
        subject = self._subject(tool, arguments)
        # What is judged here is what the tool acts on: a link may lead elsewhere by the time that somebody has answered.
        found = _found(subject.text) if subject.kind == "path" else None
        identity = None if found is None else (found.st_dev, found.st_ino)
        target = ApprovedFile(subject.text, identity) if subject.kind == "path" else None
        verdict = self._policy.verdict(tool.name, harmless=tool.harmless, subject=subject, around=self._around())
        if verdict.action == "allow":
            return target
        if verdict.action == "deny":
            raise self._refused(tool, call_id, "settings", f"the settings forbid it ({verdict.because})")
        # For the same command, file or URI, or for this tool if its calls are about none of these. A file with further names
        # (hard links) is not the same as one that was there under this path alone.
        about_tool = subject.kind == "arguments" and tool.name not in PATH_TOOLS
        linked = identity if found is not None and stat.S_ISREG(found.st_mode) and found.st_nlink > 1 else None
        kind_of_call = (tool.name, "" if about_tool else subject.text or _as_json(arguments), linked)
        if kind_of_call in self._allowed:
            self._told.tell(ToolApprovalResolved(call_id, tool.name, True, "session"))
        elif await self._ask(tool, call_id, arguments, subject, cancel) == "allow_session":
            self._allowed.add(kind_of_call)
        return target

    # Asking

    async def _ask(
        self, tool: Tool, call_id: str, arguments: dict[str, Any], subject: Subject, cancel: Cancel
    ) -> Literal["allow", "allow_session"]:
        """What somebody who was asked allows. Raises ToolError if that is nothing."""
        ui = self._told.ui
        if not ui.available:
            raise self._refused(tool, call_id, "nobody", "it needs somebody's approval, and there is nobody to ask")
        message = shown(subject.text or _as_json(arguments))
        self._told.tell(ToolApprovalRequested(call_id, tool.name, arguments, message))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            answer = await ui.approve(f"Allow {shown(tool.name)}?", message, timeout=self._timeout, cancel=cancel)
        except asyncio.CancelledError:
            self._refused(tool, call_id, "nobody", "the run was aborted")
            raise
        except Exception as error:  # who cannot be asked has not agreed
            report(error)
            raise self._refused(tool, call_id, "nobody", f"the question failed ({type(error).__name__})") from error
        if answer == "allow" or answer == "allow_session":
            self._told.tell(ToolApprovalResolved(call_id, tool.name, True, "user"))
            return answer
        if answer == "deny":
            raise self._refused(tool, call_id, "user", "the user refused it")
        if cancel.fired:
            self._refused(tool, call_id, "nobody", "the run was aborted")
            raise ToolError(ABORTED)
        if loop.time() - begun >= self._timeout:
            raise self._refused(tool, call_id, "nobody", f"nobody approved it within {self._timeout:g} seconds")
        raise self._refused(tool, call_id, "nobody", "the user dismissed the question")

    def _refused(self, tool: Tool, call_id: str, by: Literal["user", "settings", "nobody"], why: str) -> ToolError:
        self._told.tell(ToolApprovalResolved(call_id, tool.name, False, by, why))
        return ToolError(f"{tool.name} was not run: {why}. {_INSTEAD}")

    # What a call is about

    def _subject(self, tool: Tool, arguments: dict[str, Any]) -> Subject:
        if tool.name in COMMAND_TOOLS:
            command = arguments.get("command")
            # Input for a command that runs already is no command, whatever else the call says.
            plain = isinstance(command, str) and arguments.get("action", "run") == "run" and "input" not in arguments
            return Subject("command", str(command) if plain else "")
        if tool.name in PATH_TOOLS:
            return self._file(arguments)
        return Subject("arguments", _as_json(arguments))

    def _file(self, arguments: dict[str, Any]) -> Subject:
        path = arguments.get("path", ".")
        workspace = self._told.workspace
        if not isinstance(path, str):
            return Subject("arguments", _as_json(arguments))
        if workspace.uris is not None and workspace.uris.has(path):
            return Subject("arguments", path)
        named = workspace.resolve(path or ".")
        return Subject("path", os.path.realpath(named), str(named))

    def _around(self) -> Surroundings:
        workspace = self._told.workspace
        knows_shell = workspace.shell is None or Path(workspace.shell).name in KNOWN_SHELLS
        return Surroundings(os.path.realpath(workspace.cwd), str(user_folder(workspace.env)), knows_shell)

    @property
    def _told(self) -> Session:
        assert self._session is not None, "whoever makes a session attaches it"
        return self._session

    def _hear(self, event: Event) -> None:
        if isinstance(event, SessionReplaced):
            self._allowed.clear()


def shown(text: str) -> str:
    """A text for a person to judge: nothing in it can hide or move something else, and it is not endless."""
    whole = len(text)
    visible = "".join(map(_visible, text[:SHOWN]))
    return visible if whole <= SHOWN else f"{visible}\n… (the first {SHOWN} of {whole} characters)"


def _visible(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"):
        return character
    return f"\\u{{{ord(character):x}}}"


def _found(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _as_json(arguments: dict[str, Any]) -> str:
    return msgspec.json.encode(scrub(arguments), order="sorted").decode()
