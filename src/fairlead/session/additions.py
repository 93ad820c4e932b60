"""What users add to a session: instructions, skills, templates, MCP servers, extensions. Their source is unknown here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from fairlead.core.events import CommandsChanged
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.errors import ConfigError, RunAborted
from fairlead.models.context_windows import is_small
from fairlead.session import hook_calls
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.session.session_events import Events, Notify
from fairlead.session.slash_commands import Completion, SlashCommand

if TYPE_CHECKING:
    from fairlead.core.messages import ImageContent
    from fairlead.session.hook_calls import HookCalls
    from fairlead.session.hooks import CallHooks, Hooks, LateHooks
    from fairlead.session.host import Host
    from fairlead.session.selection import Selection
    from fairlead.session.session_options import SessionOptions
    from fairlead.session.toolbox import Toolbox


class PromptParts(Struct, frozen=True, kw_only=True):
    """What the system prompt has from users. All of it may be empty."""

    #: Takes the place of our own part.
    instead: str | None = None
    #: Follows it.
    appended: Sequence[str] = ()
    #: Instructions for all work in this place, and the files that they come from.
    context: str = ""
    context_files: Sequence[Path] = ()
    #: The skills there are, for a model that can read files.
    skills: str = ""


class SkillSummary(Struct, frozen=True):
    """What the model sees of a skill before it asks for it."""

    name: str
    description: str


class Additions(Protocol):
    """What users add, for work in a directory. It is read when first needed, and stays the same until `reload`."""

    def prepare(self, cwd: Path) -> Awaitable[None] | None:
        """Read everything without blocking the event loop; None if that has been done.

        A caller that is cancelled stops waiting at once, even if the read hangs. The other methods read by themselves if
        nothing is prepared, and block the loop."""
        ...

    def prompt_parts(self, cwd: Path) -> PromptParts: ...

    def commands(self, cwd: Path) -> list[SlashCommand]: ...

    def expand(self, text: str, cwd: Path) -> str:
        """The text that a message stands for, if it begins with a slash command; else the message.

        Raises ConfigError if it names a command that cannot be used.
        """
        ...

    def skills(self, cwd: Path) -> list[SkillSummary]:
        """The skills that the model may ask for."""
        ...

    def skill_text(self, name: str, cwd: Path, arguments: str = "") -> str:
        """The instructions of a skill. Raises ConfigError if there is no such skill, or if it cannot be read any more."""
        ...

    def reload(self) -> None:
        """Read everything again when it is next needed."""
        ...


class Servers(Protocol):
    """Programs beside a session that bring it tools and prompts.

    They start by themselves, put their tools into the session's toolbox as they come, and end with the session.
    """

    async def ready(self, cancel: CancelToken) -> None:
        """Wait for those that are about to be there, but not for long: a late one brings its tools later.

        Called before every call of the model; mostly there is nothing to wait for.
        """
        ...

    def commands(self) -> list[SlashCommand]:
        """The slash commands that they have brought so far."""
        ...

    async def list_states(self) -> dict[str, str]:
        """Connect to all, wait for those that are quick, and return the state of each, by name."""
        ...

    async def expand(self, text: str, cancel: CancelToken) -> tuple[str, list[ImageContent]] | None:
        """The text and images of a message that begins with one of their commands; None if it does not.

        Raises ConfigError if it names a command that cannot be used.
        """
        ...

    async def close(self) -> None: ...


class SessionAdditions:
    """What users add to one session, in its present working directory."""

    def __init__(
        self,
        options: SessionOptions,
        extensions: Extensions,
        toolbox: Toolbox,
        selection: Selection,
        host: Host,
        notify: Notify,
    ) -> None:
        #: Programs that bring tools; None: there are none.
        self.servers = options.servers
        #: Code that users add.
        self.extensions = extensions
        self._additions = options.additions
        self._workspace = options.workspace
        self._runtime = options.runtime
        self._make_system_prompt = options.system_prompt
        self._toolbox = toolbox
        self._selection = selection
        self._host = host
        self._notify = notify
        #: Stop waiting for a read.
        self._stops: list[CancelToken] = []

    async def prepare(self, cancel: CancelToken | None = None) -> None:
        """Read everything that users add, without blocking the event loop.

        Raises RunAborted when `cancel` fires; without one, when the session is aborted.
        """
        reading = None if self._additions is None else self._additions.prepare(self._workspace.cwd)
        if reading is None:
            return
        stop = cancel or CancelToken()
        self._stops.append(stop)
        try:
            await self._runtime.run_bounded(reading, stop, timeout=None, grace=0)
        except Interrupted:
            raise RunAborted("Aborted while instructions, skills and templates were being read.") from None
        finally:
            self._stops.remove(stop)

    def cancel(self) -> None:
        """Stop waiting for what is being read."""
        for stop in list(self._stops):
            stop.fire()

    def system_prompt(self) -> str:
        """The system prompt, with what users add to it, for the tools that are active now."""
        model = self._selection.model
        brief = is_small(None if model is None else self._selection.window(model))
        text = self._make_system_prompt(list(self._toolbox.list_declared().values()), brief=brief)
        locale = self._host.locale
        return f"{text}\nAnswer in the language of the user's locale: {locale}" if locale else text

    def slash_commands(self) -> list[SlashCommand]:
        """All commands that a prompt can begin with: those of extensions, templates, skills and servers."""
        hooks = self.extensions.hooks
        commands = [] if hooks is None else hooks.commands()
        if self._additions is not None:
            commands += self._additions.commands(self._workspace.cwd)
        return commands if self.servers is None else commands + self.servers.commands()

    async def complete(self, name: str, typed: str) -> list[Completion]:
        """Suggestions for what follows `/name `, of which the user has typed a part. Only commands of extensions have any."""
        hooks = await self.extensions.ready()
        return [] if hooks is None else await hooks.complete(name, typed)

    def expand(self, text: str) -> str:
        """The text that a message stands for, if it begins with the command of a template or a skill; else the message.

        Raises ConfigError if it names a command that cannot be used.
        """
        return text if self._additions is None else self._additions.expand(text, self._workspace.cwd)

    def skills(self) -> list[SkillSummary]:
        """The skills that the model may ask for."""
        return [] if self._additions is None else self._additions.skills(self._workspace.cwd)

    def skill_text(self, name: str) -> str:
        """The instructions of a skill. Raises ConfigError if there is no such skill, or if it cannot be read any more."""
        if self._additions is None:
            raise ConfigError("There are no skills here.")
        return self._additions.skill_text(name, self._workspace.cwd)

    def context_files(self) -> Sequence[Path]:
        """The files with instructions that the model sees."""
        return () if self._additions is None else self._additions.prompt_parts(self._workspace.cwd).context_files

    def reload(self) -> None:
        """Read everything again when it is next needed."""
        if self._additions is not None:
            self._additions.reload()
            self._notify(CommandsChanged())

    async def close(self) -> None:
        if self.servers is not None:
            await self.servers.close()


T = TypeVar("T")


class Extensions:
    """Loads the hooks of a session when they are first needed, and asks them.

    `call_hooks` are those of the session that this one works for, if it is the session of a sub-agent.
    """

    def __init__(self, late: LateHooks | None, call_hooks: CallHooks | None, runtime: AsyncioRuntime, events: Events) -> None:
        #: Calls the hooks, from when they begin to load.
        self.calls: HookCalls | None = None
        self._late = late
        self._call_hooks = call_hooks
        self._runtime = runtime
        self._events = events

    @property
    def may_exist(self) -> bool:
        """Whether there are extensions, as far as is known."""
        return self._late is not None

    @property
    def hooks(self) -> Hooks | None:
        """The hooks; None before they are loaded, and if there are none."""
        return None if self.calls is None else self.calls.hooks

    @property
    def call_hooks(self) -> CallHooks | None:
        """The hooks that are asked about each tool call."""
        return self.hooks or self._call_hooks

    def exist(self) -> bool:
        """Whether there are extensions, loaded or not."""
        return self._late is not None and (self.calls is not None or self._late.exist())

    async def ready(self, *, stoppable: bool = False) -> Hooks | None:
        """Load the extensions and tell them that the session has begun. Returns the hooks; None if there are none.

        Raises RunAborted if it is `stoppable` and the session is cancelled meanwhile: extensions may take long, or wait for the
        user.
        """
        if self._late is None:
            return None
        if self.calls is None:
            if not self._late.exist():
                self._late = None
                return None
            self._use(self._late)
        assert self.calls is not None
        return await (self.calls.ready_or_stopped() if stoppable else self.calls.ready())

    async def ask(self, work: Awaitable[T], cancel: CancelToken | None = None) -> T:
        """The answer of a hook. Raises Interrupted when `cancel` fires; without one, when the session is cancelled."""
        assert self.calls is not None, "hooks answer only once they are loaded"
        return await self.calls.ask(work, cancel)

    def use(self, late: LateHooks, hooks: Hooks) -> None:
        """Use hooks that are loaded already. The caller tells them that the session has begun."""
        self._late = late
        self._use(late, hooks)

    async def reload(self, load: Callable[[], Awaitable[object]]) -> None:
        """Have the hooks load everything again. Whatever needs them meanwhile waits."""
        assert self.calls is not None, "only what was loaded is loaded again"
        await self.calls.reload(load)

    async def drain_events(self) -> None:
        """Wait until extensions have handled the events that were sent so far."""
        if self.hooks is not None:
            await self.hooks.drain_events()

    def position_changed(self) -> None:
        """The conversation is another one, or has moved within its tree."""
        if self.hooks is not None:
            self.hooks.position_changed()

    def cancel(self) -> None:
        """Stop waiting for answers that belong to no run."""
        if self.calls is not None:
            self.calls.cancel()

    async def close(self) -> None:
        """Tell extensions that the session ends."""
        if self.calls is not None:
            await self.calls.close()

    def _use(self, late: LateHooks, hooks: Hooks | None = None) -> None:
        known: list[SlashCommand] = []

        def announce_new_commands() -> None:
            nonlocal known
            commands = [] if self.hooks is None else self.hooks.commands()
            if commands != known:
                known = commands
                self._events.notify(CommandsChanged())

        self.calls = self._events.extensions = hook_calls.HookCalls(self._runtime, late, hooks, announce_new_commands)
