"""The extensions of one session: loads them, calls their code, and passes on what they send."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import threading
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairlead.config.process import on_process_ending
from fairlead.core.events import ExtensionError
from fairlead.errors import FairleadError
from fairlead.extend.extensions.api import Fairlead
from fairlead.extend.extensions.calling import Deadline, call, error_text, interrupt_soon, without_our_frames
from fairlead.extend.extensions.context import CommandContext, Context
from fairlead.extend.extensions.discovery import (
    FoundExtension,
    find_project_extensions,
    find_user_extensions,
    forget_module,
    setup_function,
    without_bytecode,
)
from fairlead.extend.extensions.events import EventBus, Listeners
from fairlead.extend.extensions.registrations import Extension, ExtensionCommand, Handler, Registrations
from fairlead.extend.extensions.values import checked_result
from fairlead.session.additions import SlashCommand

if TYPE_CHECKING:
    from pathlib import Path

    from fairlead.extend.extensions.late import ExtensionHost
    from fairlead.session.session import Session


_log = logging.getLogger("fairlead.extend")


class WorkQueue:
    """Runs pieces of work one after another, in a task that exists while there is work. The work must not raise."""

    def __init__(self) -> None:
        self._pending: deque[Callable[[], Awaitable[None]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, work: Callable[[], Awaitable[None]]) -> None:
        self._pending.append(work)
        if self._task is None:
            # The work does not inherit the context variables of the caller.
            self._task = asyncio.get_running_loop().create_task(self._work(), context=contextvars.Context())

    @property
    def busy(self) -> bool:
        return self._task is not None

    def runs_in(self, task: asyncio.Task[object] | None) -> bool:
        """Whether `task` is the one that runs the work."""
        return task is not None and task is self._task

    async def idle(self) -> None:
        """Wait until all work is done."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        try:
            while self._pending:
                await self._pending.popleft()()
        finally:
            self._task = None


class Outbox:
    """Work that takes time, such as starting a run. It is done in order, and extensions do not wait for it.

    What a command sends is held back until the command is done or waits for something. A host that sent the command thus gets the
    response before the events of a run that the command starts.
    """

    def __init__(self) -> None:
        self._held: list[Callable[[], Awaitable[None]]] = []
        self._holding = 0
        self._queue = WorkQueue()

    @property
    def is_empty(self) -> bool:
        return not self._held and not self._queue.busy

    def put(self, work: Callable[[], Awaitable[None]]) -> None:
        self._held.append(work)
        if not self._holding:
            self.send()

    def send(self) -> None:
        """Start all work that was held back."""
        held, self._held = self._held, []
        for work in held:
            self._queue.put(work)

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold work back until `send` is called, or until the caller has sent its response."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
            # The caller sends its response in this same step of the event loop.
            asyncio.get_running_loop().call_soon(self.send)

    async def sent(self) -> None:
        """Start all work, and wait until it is done."""
        self.send()
        await self._queue.idle()


class Engine:
    """Loads extensions and calls their code. Their failures are reported as ExtensionError events and do not stop the agent."""

    def __init__(self, host: ExtensionHost) -> None:
        self.host = host
        self.session = host.session
        self.outbox = Outbox()
        self.extensions: list[Extension] = []
        #: The handlers of each event, in the order in which they were registered.
        self.listeners: dict[str, list[Handler]] = {}
        self.registrations = Registrations(self)
        self._bus: Listeners = {}
        #: Whether the user's and the project's extensions are loaded, and whether the session has started.
        self._has_own = self._has_projects = self._began = False
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        #: The tasks that run handlers, and those that no caller waits for.
        self.handler_tasks: set[asyncio.Task[Any]] = set()
        self._background: set[asyncio.Task[Any]] = set()
        host.trust.consult = self._ask_about_trust
        on_process_ending(interrupt_soon)

    # Loading

    async def load(self, *, ask: bool = True) -> None:
        """Load the user's extensions, then those of the project if it is trusted: the user's extensions have a say in that.

        Without `ask`, the project's extensions are loaded only if it is already known that they may run.
        """
        if not self._has_own:
            self._has_own = True
            await self._load_all(find_user_extensions(self.host))
        cwd, trust = self.host.cwd, self.host.trust
        projects = [] if self._has_projects else find_project_extensions(self.host, cwd)
        if projects and (await trust.decide(cwd) if ask else trust.known(cwd)):
            self._has_projects = True
            await self._load_all(projects)

    def begin(self) -> None:
        """Allow extensions to act on the session from now on."""
        self._began = True
        self.restore_states()

    async def unload(self) -> None:
        """Remove everything that extensions have registered."""
        for extension in self.extensions:
            self._remove(extension)
            forget_module(extension.module_name)
        self.extensions.clear()
        self._has_own = self._has_projects = False

    async def _load_all(self, found: Iterable[FoundExtension]) -> None:
        for each in found:
            taken = next((known for known in self.extensions if known.name == each.name), None)
            if taken is not None:
                if taken.found.path != each.path:
                    self.host.warn([f"{each.shown_path} is not loaded, because {taken.path} is an extension with the same name."])
                continue
            await self._load(each)
            await asyncio.sleep(0)  # let other tasks run between two extensions

    async def _load(self, found: FoundExtension) -> None:
        extension = Extension(found, EventBus(self._bus, lambda event, work: self._start_background(extension, event, work)))
        self.extensions.append(extension)
        fl = Fairlead(self, extension)

        def set_up() -> Any:
            with without_bytecode():
                return setup_function(found, extension.module_name)(fl)

        try:
            await call(set_up, Deadline(self.host.timeout))
        except Exception as error:
            self._remove(extension)
            self.extensions.remove(extension)
            forget_module(extension.module_name)
            self.host.warn([f"The extension {extension.path} was not loaded: {error_text(error)}"])
            self.report(extension.path, "load", error)

    def _remove(self, extension: Extension) -> None:
        extension.is_loaded = False
        extension.bus.close()
        self.registrations.remove_all(extension)
        self.listeners = {
            event: kept
            for event, handlers in self.listeners.items()
            if (kept := [handler for handler in handlers if handler.owner is not extension])
        }

    # Listening

    def listen(self, event: str, handler: Handler) -> None:
        if handler.owner.is_loaded:
            self.listeners[event] = [*self.listeners.get(event, ()), handler]

    def unlisten(self, event: str, handler: Handler) -> None:
        kept = [each for each in self.listeners.get(event, ()) if each is not handler]
        if kept:
            self.listeners[event] = kept
        else:
            self.listeners.pop(event, None)

    # Calling

    async def ask(self, event: str, handler: Handler, payload: Any, *, max_seconds: float = math.inf) -> Any:
        """Call a handler, which may take `max_seconds` at most, and return what it returns.

        Raises what the handler raises, TooSlow or ExitAttempt.
        """
        limit = self.host.timeout if handler.timeout is None else handler.timeout
        deadline = Deadline(min(limit, max_seconds))
        context = Context(self, deadline)
        try:
            return await self.call(handler.owner, handler.bind(payload, context), deadline)
        finally:
            self.save_state(handler.owner, event)

    async def ask_or_report(self, event: str, handler: Handler, payload: Any, *, max_seconds: float = math.inf) -> Any:
        """Call a handler and return its checked result. If it fails, report the error and return None."""
        try:
            return checked_result(event, await self.ask(event, handler, payload, max_seconds=max_seconds))
        except Exception as error:
            self.report(handler.owner.path, event, error)
            return None

    async def call(
        self, owner: Extension, work: Callable[[], Any], deadline: Deadline, on_wait: Callable[[], None] | None = None
    ) -> Any:
        """Call code of `owner`, saving its state whenever it waits for something."""

        def waits() -> None:
            if on_wait is not None:
                on_wait()
            self.save_state(owner, "state")
            self.outbox.send()

        return await call(work, deadline, waits, self._track_handler)

    async def run_command(self, command: ExtensionCommand, arguments: str, on_wait: Callable[[], None] | None = None) -> None:
        """Run a slash command to its end. `on_wait` is called whenever it waits for something."""
        deadline = Deadline(None)
        context = CommandContext(self, deadline)
        owner = command.handler.owner
        with self.outbox.held():
            try:
                await self.call(owner, command.handler.bind(arguments, context), deadline, on_wait)
            except Exception as error:
                self.report(f"command:{command.name}", "command", error)
            finally:
                self.save_state(owner, "command")

    def run_on_agent_thread(self, work: Callable[[], object]) -> None:
        """Run `work` on the agent's thread: at once if the caller is on it, otherwise soon."""
        if threading.get_ident() == self._thread:
            work()
        else:
            self._loop.call_soon_threadsafe(work)

    def report(self, path: str, event: str, error: Exception) -> None:
        """Report a failure of an extension to the host. Its traceback goes to the log, for the author of the extension."""
        if not isinstance(error, FairleadError):
            _log.error("%s", "".join(traceback.format_exception(without_our_frames(error))).rstrip())
        self.session.host.notify(ExtensionError(path, event, error_text(error)))

    def session_for(self, extension: Extension) -> Session:
        """Return the session, for an extension that wants to act on it. Raises RuntimeError if it may not."""
        extension.require_loaded()
        if not self._began:
            raise RuntimeError(
                "The session has not started. Do this in a handler (of session_start, for example), not in setup()."
            )
        self.require_agent_thread()
        return self.session

    def require_agent_thread(self) -> None:
        """Raise RuntimeError unless the caller is on the agent's thread. Tools that are plain functions run on other threads."""
        if threading.get_ident() != self._thread:
            raise RuntimeError("This can be done on the agent's thread only. Make the function a coroutine function (async def).")

    def send(self, owner: Extension, event: str, work: Callable[[], Coroutine[Any, Any, None]], *, starts_run: bool) -> None:
        """Do work for the session: at once if nothing is in the outbox and no run starts, otherwise through the outbox."""
        if self.outbox.is_empty and not starts_run:
            _run_without_waiting(work())
        else:
            self.send_later(owner, event, work)

    def send_later(self, owner: Extension, event: str, work: Callable[[], Awaitable[None]]) -> None:
        """Put work for the session into the outbox, and report its failure as one of `owner`."""

        async def sending() -> None:
            try:
                await work()
            except Exception as error:
                self.report(owner.path, event, error)

        self.outbox.put(sending)

    def _start_background(self, owner: Extension, event: str, work: Callable[[], Any]) -> None:
        """Call code of an extension that no caller waits for."""

        async def background() -> None:
            try:
                await self.call(owner, work, Deadline(self.host.timeout))
            except Exception as error:
                self.report(owner.path, event, error)
            finally:
                self.save_state(owner, event)

        def start() -> None:
            task = self._loop.create_task(background())
            self._background.add(task)
            task.add_done_callback(self._background.discard)

        self.run_on_agent_thread(start)

    def _track_handler(self, task: asyncio.Task[Any]) -> None:
        self.handler_tasks.add(task)
        task.add_done_callback(self.handler_tasks.discard)

    # Commands

    def command(self, name: str) -> ExtensionCommand | None:
        return next((extension.commands[name] for extension in self.extensions if name in extension.commands), None)

    def slash_commands(self) -> list[SlashCommand]:
        return [
            SlashCommand(command.name, command.description, "extension", extension.found.origin)
            for extension in self.extensions
            for command in extension.commands.values()
        ]

    # State

    def restore_states(self) -> None:
        """Set the states of all extensions to their values at the current entry of the session."""
        conversation = self.session.history.conversation
        for extension in self.extensions:
            extension.state.restore(conversation.log if conversation.has_begun else None)

    def save_state(self, extension: Extension, event: str) -> None:
        """Save the state of an extension if it has changed."""
        try:
            changed = extension.state.take_changes()
            if changed is not None and extension.is_loaded and self._began:
                self.session.history.append_entry(extension.state.custom_type, changed)
        except Exception as error:  # the disk is full, or the state cannot be written as JSON
            self.report(extension.path, event, error)

    def save_states(self) -> None:
        """Save all states that have changed, before the session switches to another file or entry."""
        for extension in self.extensions:
            self.save_state(extension, "state")

    # Trust

    async def _ask_about_trust(self, project: Path) -> bool | None:
        """Ask the user's extensions whether to trust a project. The first one with an opinion decides."""
        from fairlead.extend.extensions.discovery import save_trust
        from fairlead.extend.extensions.events import ProjectTrust

        for handler in self.listeners.get("project_trust", ()):
            answer = await self.ask_or_report("project_trust", handler, ProjectTrust(project))
            if answer is not None:
                if answer.remember:
                    save_trust(self.host.home, project, answer.trusted, self.host.warn)
                return answer.trusted
        return None


def _run_without_waiting(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits for anything. Raises RuntimeError if it does."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise RuntimeError("This cannot be done here, because it would have to wait.")
