"""Loads the extensions of a session, and loads them again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fairlead.errors import ExtensionNotLoaded
from fairlead.extend.extensions.api import Fairlead
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
from fairlead.extend.extensions.event_bus import EventBus
from fairlead.extend.extensions.registrations import Extension

if TYPE_CHECKING:
    from fairlead.extend.extensions.engine import Engine


class Loader:
    """Loads extensions into an engine. Failures are reported, unless the extension is required."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._host = engine.host
        #: Whether the required, the user's and the project's extensions are loaded.
        self._has_required = self._has_own = self._has_projects = False
        #: Why a required extension is not loaded.
        self._failure: ExtensionNotLoaded | None = None

    async def load(self, *, ask: bool = True) -> None:
        """Load the user's extensions, then those of the project if it is trusted: the user's extensions have a say in that.

        Without `ask`, the project's extensions are loaded only if it is already known that they may run. Raises
        ExtensionNotLoaded if a required extension cannot be loaded, and again whenever it is called after that.
        """
        await self.load_required()
        if not self._has_own:
            self._has_own = True
            await self._load_all(find_user_extensions(self._host))
        cwd, trust = self._host.cwd, self._host.trust
        projects = [] if self._has_projects else find_project_extensions(self._host, cwd)
        if projects and (await trust.decide(cwd) if ask else trust.known(cwd)):
            self._has_projects = True
            await self._load_all(projects)

    async def load_required(self) -> None:
        """Load the extensions that the command line, the program or the user's settings name.

        Raises ExtensionNotLoaded if one cannot be loaded, and again whenever it is called after that.
        """
        if self._failure is not None:
            raise self._failure
        if not self._has_required:
            self._has_required = True
            try:
                await self._host.fetch_packages()
                await self._load_all(find_required_extensions(self._host))
            except ExtensionNotLoaded as error:
                self._failure = error
                await self._engine.scripts.forget()
                raise
            except BaseException:  # the caller was cancelled
                self._has_required = False
                raise

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
                        raise _not_loaded(each, f"{problem}. Rename one of them.")
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
                raise _not_loaded(found, error_text(error)) from error
            self._host.warn([f"The extension {extension.path} was not loaded: {error_text(error)}"])
            engine.report(extension.path, "load", error)

    def _must_load(self, found: FoundExtension) -> bool:
        return found.is_required and self._host.on_error == "exit"


def _are_the_same(known: FoundExtension, found: FoundExtension) -> bool:
    """Whether two extensions cannot both be loaded. pi's are told apart by their files, ours by their names."""
    if known.is_script and found.is_script:
        return known.path.resolve() == found.path.resolve()
    return not known.is_script and not found.is_script and known.name == found.name


def _not_loaded(found: FoundExtension, problem: str) -> ExtensionNotLoaded:
    """Return the error for a required extension. pi begins it with the same words."""
    return ExtensionNotLoaded(f'Failed to load extension "{found.shown_path}": {problem}')
