"""Loads the extensions of a session, also again. Those written for pi run in a Node process, which exists while there are any."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fairlead.errors import ExtensionNotLoaded, FairleadError
from fairlead.extend.extensions.calling import Deadline, call, error_text, log_traceback
from fairlead.extend.extensions.discovery import (
    FoundExtension,
    find_project_extensions,
    find_required_extensions,
    find_user_extensions,
    forget_module,
    setup_function,
    without_bytecode,
)
from fairlead.extend.extensions.extension_api import Fairlead
from fairlead.extend.extensions.registrations import EventBus, Extension, make_handler

if TYPE_CHECKING:
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.node.remote import RemoteExtensions


class Loader:
    """Loads extensions into an engine. Failures are reported, unless the extension is required."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._host = engine.host
        #: Whether the required, the user's and the project's extensions are loaded.
        self._has_required = self._has_own = self._has_projects = False
        #: Why a required extension is not loaded.
        self._failure: ExtensionNotLoaded | None = None
        #: Held while extensions are loaded: who needs them meanwhile waits until they have registered what they add.
        self._is_loading = asyncio.Lock()

    async def load(self, *, ask: bool = True) -> None:
        """Load the user's extensions, then those of the project if it is trusted: the user's extensions have a say in that.

        Without `ask`, the project's extensions are loaded only if it is already known that they may run. Raises
        ExtensionNotLoaded if a required extension cannot be loaded, and again whenever it is called after that.
        """
        await self.load_required()
        async with self._is_loading:
            if not self._has_own:
                await self._load_all(find_user_extensions(self._host))
                self._has_own = True
        cwd, trust = self._host.cwd, self._host.trust
        projects = [] if self._has_projects else find_project_extensions(self._host, cwd)
        if projects and (await trust.decide(cwd) if ask else trust.is_trusted(cwd)):
            async with self._is_loading:
                if not self._has_projects:
                    await self._load_all(projects)
                    self._has_projects = True

    async def load_required(self) -> None:
        """Load the extensions that the command line, the program or the user's settings name.

        Raises ExtensionNotLoaded if one cannot be loaded, and again whenever it is called after that.
        """
        async with self._is_loading:
            if self._failure is not None:
                raise self._failure
            if not self._has_required:
                try:
                    await self._host.fetch_packages()
                    await self._load_all(find_required_extensions(self._host))
                except ExtensionNotLoaded as error:
                    self._failure = error
                    await self._engine.scripts.forget()
                    raise
                self._has_required = True

    def forget_failure(self) -> bool:
        """Try again to load the required extensions when they are next needed. Returns False if that did not fail before."""
        if self._failure is None:
            return False
        self._failure, self._has_required = None, False
        return True

    async def unload(self) -> None:
        """Remove everything that extensions have registered."""
        for extension in list(self._engine.extensions):
            self._engine.remove(extension)
            forget_module(extension.module_name)
        self._engine.scripts.retire()
        self._has_required = self._has_own = self._has_projects = False
        self._failure = None

    async def _load_all(self, found: Iterable[FoundExtension]) -> None:
        for each in found:
            taken = next((known for known in self._engine.extensions if _are_the_same(known.found, each)), None)
            if taken is not None:
                if taken.found.path != each.path:
                    problem = f"{taken.path} is an extension with the same name"
                    if self._must_load(each):
                        raise _make_not_loaded_error(each, f"{problem}. Rename one of them.")
                    self._host.warn([f"{each.shown_path} is not loaded, because {problem}."])
                continue
            await self.load_one(each)
            await asyncio.sleep(0)  # let other tasks run between two extensions

    async def load_one(self, found: FoundExtension) -> None:
        """Load an extension. Raises ExtensionNotLoaded if it cannot be loaded and is required; else the failure is reported."""
        engine = self._engine
        bus = EventBus(engine.bus_listeners, lambda event, work: engine.start_background(extension, event, work))
        extension = Extension(found, bus)
        engine.extensions.append(extension)
        fl = Fairlead(engine, extension)

        def set_up() -> Any:
            if found.is_script and found.problem is None:
                return engine.scripts.load(fl, extension)
            with without_bytecode():
                return setup_function(found, extension.module_name)(fl)

        try:
            if found.is_script and found.problem is None:
                await engine.scripts.start()  # its own time does not count as the extension's
            await call(set_up, Deadline(self._host.timeout))
        except Exception as error:
            engine.remove(extension)
            forget_module(extension.module_name)
            if self._must_load(found):
                log_traceback(error, logging.INFO)
                raise _make_not_loaded_error(found, error_text(error)) from error
            self._host.warn([f"The extension {extension.path} was not loaded: {error_text(error)}"])
            engine.report(extension.path, "load", error)
        except BaseException:  # the caller was cancelled: the next one loads it
            engine.remove(extension)
            forget_module(extension.module_name)
            raise

    def _must_load(self, found: FoundExtension) -> bool:
        return found.is_required and self._host.on_error == "exit"


def _are_the_same(known: FoundExtension, found: FoundExtension) -> bool:
    """Whether two extensions cannot both be loaded. pi's are told apart by their files, ours by their names."""
    if known.is_script and found.is_script:
        return known.path.resolve() == found.path.resolve()
    return not known.is_script and not found.is_script and known.name == found.name


def _make_not_loaded_error(found: FoundExtension, problem: str) -> ExtensionNotLoaded:
    """Return the error for a required extension. pi begins it with the same words."""
    return ExtensionNotLoaded(f'Failed to load extension "{found.shown_path}": {problem}')


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
            from fairlead.extend.node.remote import RemoteExtensions  # noqa: PLC0415  few programs have extensions

            self._remote = RemoteExtensions(self._engine)
        return self._remote
