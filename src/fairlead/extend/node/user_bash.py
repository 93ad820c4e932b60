"""Shell commands of the user that an extension in the Node process runs in its own way."""

from __future__ import annotations

from base64 import b64decode
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairlead.extend.extensions import events as e
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import Context

if TYPE_CHECKING:
    from fairlead.extend.node.remote import RemoteExtensions


#: How many characters of the output are kept in memory. What is shown of it is much less.
_MOST_CHARS = 16 * 1024 * 1024


class BashRunContext(Context):
    """The context of a command that runs. Its output is cleaned, shown and logged like that of commands that run here."""

    def __init__(self, remote: RemoteExtensions, event: e.UserBash) -> None:
        from fairlead.tools.shell.output import CommandOutput

        super().__init__(remote.engine, Deadline(None))
        workspace = remote.engine.session.host.workspace
        self._show = event.show
        self._output = CommandOutput(workspace.log_dir, workspace.keep_log, clean=True)
        self._pieces: deque[str] = deque()
        self._size = 0
        self._is_cut = False

    def add(self, data: str) -> None:
        """Take more output, as base64."""
        self._take(self._output.feed(b64decode(data)))

    def ran(self, outcome: Mapping[str, Any]) -> e.Ran:
        """Return the outcome of a command that has ended."""
        self._take(self._output.finish())
        cancelled = bool(outcome.get("cancelled"))
        return e.Ran("".join(self._pieces), outcome.get("exitCode"), cancelled, self._is_cut, self._output.log_path)

    def _take(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._size += len(text)
            while self._size > _MOST_CHARS:
                self._size -= len(self._pieces.popleft())
                self._is_cut = True
            self._show(text)


async def run_operations(remote: RemoteExtensions, event: e.UserBash, given: Mapping[str, Any]) -> e.Ran:
    """Run a command with the operations that a handler returned. Raises RemoteError or BridgeLost."""
    context = BashRunContext(remote, event)
    return context.ran(await remote.call("bash", given, context))
