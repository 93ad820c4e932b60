"""Commands of settings as hooks: they get the input of the event on standard input, and answer with JSON or an exit code."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from fairlead.core import lenient
from fairlead.core.runtime import CancelToken
from fairlead.errors import ConfigError, ToolError
from fairlead.protocol.claude import frames
from fairlead.session.history.claude_files import new_uuid
from fairlead.tools.shell import command_process
from fairlead.tools.workspace import Workspace

#: Seconds that a hook has, unless its settings or the host say otherwise.
TIMEOUT = 60.0
#: The events to which the output of a command adds context as it is.
_TAKE_TEXT = ("UserPromptSubmit", "SessionStart", "SubagentStart")
#: With this exit code a command blocks what it was asked about.
_BLOCKS = 2
#: A shell adds this to the number of the signal that killed a command.
_KILLED = 128
_MOST_ERRORS = 64 * 1024


class Hook(Struct, frozen=True, kw_only=True):
    """A hook: a callback of the host, or a command of the settings."""

    matcher: str | None = None
    timeout: float = TIMEOUT
    #: Whether a failure of the hook refuses what it was asked about.
    blocks_on_failure: bool = False
    callback: str = ""
    command: str = ""


class Failure(Struct, frozen=True):
    """A hook that has not answered. `is_grave`: what it guards must not go on. `is_quiet`: it is not reported."""

    text: str
    is_grave: bool = False
    is_quiet: bool = False


class _Command(Struct):
    type: str = "command"
    command: str = ""
    timeout: float | None = None


class _Group(Struct):
    hooks: list[_Command]
    matcher: str | None = None


def read_hooks(value: Mapping[str, Any], name: str, remarks: list[str]) -> dict[str, list[Hook]]:
    """Return the hooks of a file of settings, by event.

    Args:
        value: What the file says in `hooks`.
        name: The name of the file, for errors.
        remarks: Gets a sentence for each hook that is not used.

    Raises:
        ConfigError: They cannot be read, or one that guards calls cannot be run.
    """
    found: dict[str, list[Hook]] = {}
    for event, given in value.items():
        try:
            groups = msgspec.convert(given, list[_Group])
        except msgspec.ValidationError as error:
            raise ConfigError(f"{name}: hooks.{event}: {error}") from None
        for group in groups:
            for each in group.hooks:
                if each.type != "command" or not each.command.strip():
                    text = f"{name}: hooks.{event}: a hook of the type {each.type!r} cannot be run"
                    if event in ("PreToolUse", "PermissionRequest"):
                        raise ConfigError(f"{text}, and it guards tool calls. Remove it, or leave settings out.")
                    remarks.append(f"{text}, so it is not used")
                    continue
                timeout = each.timeout if each.timeout is not None and each.timeout > 0 else TIMEOUT
                hook = Hook(matcher=group.matcher, timeout=timeout, command=each.command)
                found.setdefault(event, []).append(hook)
    return found


class CommandHooks:
    """Runs the commands of settings.

    Args:
        hooks: The hooks, by event.
        workspace: Returns the workspace of the session.
        send: Sends a frame.
        common: Returns the fields that all frames have.
        shows_all: Whether frames report every command, and not only of those at the start.
    """

    def __init__(
        self,
        hooks: Mapping[str, Sequence[Hook]],
        workspace: Callable[[], Workspace],
        send: Callable[[frames.Frame], None],
        common: Callable[[], dict[str, Any]],
        *,
        shows_all: bool,
    ) -> None:
        self.hooks = hooks
        self._workspace = workspace
        self._send = send
        self._common = common
        self._shows_all = shows_all

    async def run(
        self, hook: Hook, given: Mapping[str, Any], event: str, name: str, cancel: CancelToken
    ) -> dict[str, Any] | Failure:
        """Run the command of a hook, and return its answer."""
        ident, shows = new_uuid(), self._shows_all or event == "SessionStart"
        named = {"hook_id": ident, "hook_name": name, "hook_event": event}
        if shows:
            self._send(frames.HookStarted(**named, **self._common()))
        try:
            out, errors, result = await self._execute(hook, given, cancel)
        except (ToolError, OSError) as error:
            out, errors, result = "", str(error), None
        if shows:
            code = UNSET if result is None or result.exit_code is None else result.exit_code
            outcome = "cancelled" if result is not None and result.cancelled else "success" if code == 0 else "error"
            texts = {"output": out or errors, "stdout": out, "stderr": errors}
            self._send(frames.HookResponse(**named, **texts, exit_code=code, outcome=outcome, **self._common()))
        if result is None:
            return Failure(f"its command could not be run: {errors}", is_grave=True)
        return _read_result(hook, event, out, errors, result)

    async def _execute(
        self, hook: Hook, given: Mapping[str, Any], cancel: CancelToken
    ) -> tuple[str, str, command_process.ShellResult]:
        """Run a command as the tools run theirs, but outside a sandbox: it is the user's. Returns its output and its errors."""
        workspace = self._workspace()
        folder = workspace.log_dir()
        errors = folder / f"hook-{os.urandom(6).hex()}"
        env = {**workspace.env, "CLAUDE_PROJECT_DIR": str(workspace.cwd)}
        place = replace(workspace, env=env, sandbox=None, shell=None, command_prefix="")
        output = command_process.CommandOutput(workspace.log_dir, workspace.keep_log)
        command = f"exec 2> {shlex.quote(str(errors))}\n{hook.command}"
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(msgspec.json.encode(lenient.scrub(dict(given))) + b"\n")
                file.seek(0)
                result = await command_process.run_into(
                    output, place, command, cancel=cancel, timeout=hook.timeout, stdin=file.fileno()
                )
            return result.output, _read_start(errors), result
        finally:
            errors.unlink(missing_ok=True)


def _read_start(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_ERRORS).decode("utf-8", "replace")
    except OSError:  # the shell did not get that far
        return ""


def _read_result(hook: Hook, event: str, out: str, errors: str, result: command_process.ShellResult) -> dict[str, Any] | Failure:
    """Return what a command that has ended wants."""
    if result.cancelled:
        return Failure("it was stopped", is_quiet=True)
    if result.timed_out:
        return Failure(f"its command did not end within {hook.timeout:g} seconds", is_grave=True)
    if result.exit_code is None or result.exit_code > _KILLED:
        return Failure("its command was killed", is_grave=True)
    if result.exit_code == _BLOCKS:
        return {"decision": "block", "reason": errors.strip() or out.strip() or "The command of a hook blocked it."}
    if result.exit_code:
        return Failure(f"its command ended with exit code {result.exit_code}: {errors.strip()}")
    if result.truncation.truncated:
        return Failure("its output is too long to be read", is_grave=True)
    text = out.strip()
    if text.startswith("{"):
        try:
            answer = lenient.decode(text)
        except ValueError:
            return Failure("its output is not valid JSON", is_grave=True)
        if isinstance(answer, dict):
            return cast("dict[str, Any]", answer)
    adds = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
    return adds if text and event in _TAKE_TEXT else {}
