"""The extensions of one session: calls their code in order, and passes on what they send."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.core.events import ExtensionError
from fairlead.extend.extensions.calling import Deadline, TooSlow, call, error_text, interrupt_soon, log_traceback
from fairlead.extend.extensions.context import CommandContext, Context
from fairlead.extend.extensions.discovery import FoundExtension, save_trust
from fairlead.extend.extensions.extension_events import ProjectTrust
from fairlead.extend.extensions.loading import Loader, Scripts
from fairlead.extend.extensions.registrations import EventBus, Extension, ExtensionCommand, Handler, Listeners, Registrations
from fairlead.extend.extensions.values import UnusableAnswer, check_result, suggestions
from fairlead.platform.process import on_process_ending
from fairlead.session.slash_commands import Completion, Origin, SlashCommand

if TYPE_CHECKING:
    from fairlead.extend.extensions.late import ExtensionHost
    from fairlead.session.session import Session


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

    async def flush(self) -> None:
        """Start all work, and wait until it is done."""
        self.send()
        await self._queue.idle()


_log = logging.getLogger("fairlead.extend")

#: Events that come many times in one answer.
_FREQUENT = ("message_update", "provider_stream_event")

#: Events whose handlers can hold something back. If an answer to one of these cannot be used, what it is about does not happen.
_PROTECTING = frozenset(
    "project_trust session_before_switch session_before_fork session_before_compact session_before_tree input before_agent_start "
    "context context_with_system before_provider_headers before_provider_request tool_result".split()
)


class Engine:
    """Calls the code of extensions. Their failures are reported as ExtensionError events and do not stop the agent."""

    def __init__(self, host: ExtensionHost) -> None:
        self.host = host
        self.session = host.session
        self.outbox = Outbox()
        #: Passes on events that nothing waits for.
        self.background_events = WorkQueue()
        #: The commands that run.
        self._commands: set[CommandContext] = set()
        self.extensions: list[Extension] = []
        #: The handlers of each event, in the order in which they were registered.
        self.listeners: dict[str, list[Handler]] = {}
        self.registrations = Registrations(self)
        #: The handlers on the event bus.
        self.bus_listeners: Listeners = {}
        #: The extensions that were written for pi.
        self.scripts = Scripts(self)
        self.loader = Loader(self)
        #: Whether the session has started.
        self._began = False
        #: Whether handlers see a prompt that has not begun a run.
        self.hears_prompt = False
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        #: The tasks that run handlers, and those that no caller waits for.
        self.handler_tasks: set[asyncio.Task[Any]] = set()
        self._background: set[asyncio.Task[Any]] = set()
        self._listen_for_program()
        host.trust.consult = self._ask_about_trust
        on_process_ending(interrupt_soon)

    # Starting and ending

    @contextmanager
    def hearing(self, *, begins_run: bool) -> Generator[None]:
        """Let handlers see a message of the user. Until they have, no run is active if the message is about to begin one."""
        before, self.hears_prompt = self.hears_prompt, begins_run
        try:
            yield
        finally:
            self.hears_prompt = before

    def begin(self) -> None:
        """Allow extensions to act on the session from now on."""
        self._began = True
        self.restore_states()

    def remove(self, extension: Extension) -> None:
        """Remove an extension with everything that it has registered."""
        self.extensions.remove(extension)
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
            others = self.listeners.get(event, ())
            program = [each for each in others if each.is_program]
            self.listeners[event] = [*(each for each in others if not each.is_program), handler, *program]

    def _listen_for_program(self) -> None:
        """Add the handlers of the program itself. No reload removes them."""
        found = FoundExtension("program", Path("program"), Origin(Path("program"), "cli", "temporary"))
        owner = Extension(found, EventBus({}, lambda event, work: None))
        for event, function in self.host.program_handlers.items():
            self.listen(event, Handler(owner, function, 1, None, is_program=True))
        for event, function in self.host.front_handlers.items():
            self.listen(event, Handler(owner, function, 1, math.inf, is_program=True))

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
        seconds = min(limit, max_seconds)
        deadline = Deadline(None if seconds == math.inf else seconds)
        context = Context(self, deadline)
        try:
            return await self.call(handler.owner, handler.bind(payload, context), deadline)
        finally:
            self.save_state(handler.owner, event)

    async def ask_or_report(self, event: str, handler: Handler, payload: Any, *, max_seconds: float = math.inf) -> Any:
        """Call a handler and return its checked result. If it fails, report the error and return None.

        Raises the errors of a handler of the program, and UnusableAnswer if the answer to a protecting event cannot be used.
        """
        try:
            return check_result(event, await self.ask(event, handler, payload, max_seconds=max_seconds))
        except Exception as error:
            if handler.is_program:
                raise
            self.report(handler.owner.path, event, error)
            if event in _PROTECTING and isinstance(error, UnusableAnswer):
                raise
            if event in _FREQUENT and isinstance(error, TooSlow):
                # The next one would hold up the answer again.
                self.unlisten(event, handler)
                _log.warning("%s is not called for %s any more, because it took too long.", handler.owner.path, event)
            return None

    async def call(self, owner: Extension, work: Callable[[], Any], deadline: Deadline) -> Any:
        """Call code of `owner`, saving its state whenever it waits for something."""

        def waits() -> None:
            self.save_state(owner, "state")
            self.outbox.send()

        return await call(work, deadline, waits, self._track_handler)

    async def run_command(self, command: ExtensionCommand, arguments: str) -> None:
        """Run a slash command to its end."""
        deadline = Deadline(None)
        context = CommandContext(self, deadline)
        owner = command.handler.owner
        self._commands.add(context)
        with self.outbox.held():
            try:
                await self.call(owner, command.handler.bind(arguments, context), deadline)
            except Exception as error:
                self.report(f"command:{command.name}", "command", error)
            finally:
                self.save_state(owner, "command")
                self._commands.discard(context)

    async def complete_command(self, command: ExtensionCommand, typed: str) -> list[Completion]:
        """Ask an extension to suggest arguments for its command. If that fails, there are none, and the log says why."""
        if command.complete is None:
            return []
        deadline = Deadline(self.host.timeout)
        work = command.complete.bind(typed, Context(self, deadline))
        try:
            found = await self.call(command.complete.owner, work, deadline)
            return suggestions(found)
        except Exception as error:  # not reported: the user asks again with every key
            _log.warning("The arguments of /%s cannot be completed: %s", command.name, error_text(error))
            return []

    def send_held(self) -> None:
        """Send what commands that still run have sent. If a command is about to end, its response comes first, and then all."""
        if not any(context.is_ending is not None and context.is_ending() for context in self._commands):
            self.outbox.send()

    def run_on_agent_thread(self, work: Callable[[], object]) -> None:
        """Run `work` on the agent's thread: at once if the caller is on it, otherwise soon."""
        if threading.get_ident() == self._thread:
            work()
        else:
            self._loop.call_soon_threadsafe(work)

    def report(self, path: str, event: str, error: Exception) -> None:
        """Report a failure of an extension to the host. Its traceback goes to the log, for the author of the extension."""
        if self.scripts.is_closing:
            return
        log_traceback(error, logging.ERROR)
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

    def start_background(self, owner: Extension, event: str, work: Callable[[], Any]) -> None:
        """Call code of an extension that no caller waits for."""

        async def background() -> None:
            try:
                await self.call(owner, work, Deadline(self.host.timeout))
            except Exception as error:
                self.report(owner.path, event, error)
            finally:
                self.save_state(owner, event)

        self.run_on_agent_thread(lambda: self.keep(background()))

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work that no caller waits for."""
        task = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _track_handler(self, task: asyncio.Task[Any]) -> None:
        self.handler_tasks.add(task)
        task.add_done_callback(self.handler_tasks.discard)

    # Commands

    def command(self, name: str) -> ExtensionCommand | None:
        commands = {command.name: command for extension in self.extensions for command in extension.commands.values()}
        first = name.removesuffix(":1")
        return commands.get(name) or (commands.get(first) if f"{first}:2" in commands else None)

    def slash_commands(self) -> list[SlashCommand]:
        names = {name for extension in self.extensions for name in extension.commands}

        def format_name(extension: Extension, name: str) -> str:
            """In pi the first of several commands with one name has a number, too."""
            is_first = extension.found.is_script and f"{name}:2" in names and f"{name}:1" not in names
            return f"{name}:1" if is_first else name

        return [
            SlashCommand(format_name(extension, command.name), command.description, "extension", extension.found.origin)
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
        for handler in self.listeners.get("project_trust", ()):
            try:
                answer = await self.ask_or_report("project_trust", handler, ProjectTrust(project))
            except UnusableAnswer:
                return False
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
