"""The extensions of a session that were written for pi. They run in a Node process, which exists while there are any."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fairlead.errors import ExtensionNotLoaded, FairleadError
from fairlead.extend.extensions.event_bus import EventBus
from fairlead.extend.extensions.registrations import Extension, make_handler

if TYPE_CHECKING:
    from fairlead.extend.extensions.api import Fairlead
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.node.remote import RemoteExtensions


class Scripts:
    """Starts and ends the Node process of an engine, and loads extensions in it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._remote: RemoteExtensions | None = None
        #: Fills the next session before it is announced. Returns False if that fails.
        self.set_up: Callable[[], Awaitable[object]] | None = None
        #: Whether scripts know of the session. As in pi, they hear nothing of the start and the end of one that was not filled.
        self.in_session = True

    @property
    def is_closing(self) -> bool:
        """Whether the process is being ended. What it was doing ends with it."""
        return self._remote is not None and self._remote.is_closing

    async def start(self) -> None:
        """Start the process if it does not run. Raises ConfigError or OSError."""
        await self._get().start()

    def load(self, fl: Fairlead, extension: Extension) -> Any:
        """Load an extension in the process. The caller awaits the result."""
        return self._get().load(fl, extension)

    @property
    def presents_tools(self) -> bool:
        """Whether tools of scripts have to choose again how the tools are declared to the model."""
        return self._remote is not None and self._remote.registrations.presents_tools

    async def present_tools(self) -> None:
        """Have tools of scripts choose how the tools are declared to the model."""
        if self._remote is not None:
            await self._remote.registrations.present_tools()

    async def renew(self) -> None:
        """Start all scripts again, because pi does so in each session. They keep their order."""
        engine = self._engine
        scripts = [extension for extension in engine.extensions if extension.found.is_script]
        for extension in scripts:
            engine.remove(extension)
            if self._remote is not None:
                self._remote.forget(extension)
        for extension in scripts:
            try:
                await engine.loader.load_one(extension.found)
            except ExtensionNotLoaded as error:
                self._refuse_calls(extension, error)

    async def set_up_session(self) -> None:
        """Have the script that asked for a new session fill it."""
        if self.set_up is not None:
            with suppress(TimeoutError, FairleadError):  # the process is gone, which its next call reports
                async with asyncio.timeout(self._engine.host.timeout):
                    self.in_session = await self.set_up() is not False

    async def forget(self) -> None:
        """Remove all scripts and end the process, because nothing runs now."""
        for extension in [each for each in self._engine.extensions if each.found.is_script]:
            self._engine.remove(extension)
        await self.close()

    def _refuse_calls(self, missing: Extension, reason: ExtensionNotLoaded) -> None:
        """Refuse all tool calls, because an extension that may be a gate is missing."""
        extension = Extension(missing.found, EventBus({}, lambda event, work: None))
        self._engine.extensions.append(extension)
        self._engine.report(extension.path, "load", reason)

        def refuse() -> None:
            raise reason

        self._engine.listen("tool_call", make_handler(extension, refuse))

    async def close(self) -> None:
        """End the process."""
        if self._remote is not None:
            await self._remote.close()
            self._remote = None

    def retire(self) -> None:
        """Use a new process from now on. The old one ends when the calls that run in it are done."""
        if self._remote is not None:
            self._engine.keep(self._remote.retire())
            self._remote = None

    def _get(self) -> RemoteExtensions:
        if self._remote is None:
            from fairlead.extend.node.remote import RemoteExtensions

            self._remote = RemoteExtensions(self._engine)
        return self._remote
