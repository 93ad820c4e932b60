"""`fl`: the object with which an extension adds itself to the agent."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from fairlead.core.functions import TOOL_NAME, summary
from fairlead.core.messages import ImageContent, UserBlock
from fairlead.core.model import THINKING_LEVELS
from fairlead.errors import ConfigError
from fairlead.extend.extensions.context import run_program
from fairlead.extend.extensions.extension_events import EVENTS
from fairlead.extend.extensions.registrations import (
    EventBus,
    Extension,
    ExtensionCommand,
    ExtensionFlag,
    FlagType,
    FlagValue,
    ToolDraft,
    make_handler,
)
from fairlead.extend.extensions.values import State, check_types, convert

if TYPE_CHECKING:
    from fairlead.core.model import Model, ThinkingLevel
    from fairlead.core.runtime import CancelToken
    from fairlead.core.tool import Tool
    from fairlead.extend.extensions.context import ExecResult
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.extensions.values import ProviderStream
    from fairlead.session.session import Session
    from fairlead.session.slash_commands import SlashCommand

F = TypeVar("F", bound=Callable[..., Any])

#: When a message that is sent during a run reaches the model: after the current turn, or at the end of the run.
Deliver: TypeAlias = Literal["steer", "follow_up"]

_FLAG_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


class Fairlead:
    """The agent, as an extension's `setup(fl)` gets it.

    An extension can register tools, commands and handlers at any time. The methods that act on the session (`send_message` and
    those after it) are for handlers, commands and tools: they raise RuntimeError while `setup` runs, because the session has not
    started yet.
    """

    def __init__(self, engine: Engine, extension: Extension) -> None:
        self._engine = engine
        self._extension = extension

    @property
    def name(self) -> str:
        """The name of this extension: that of its file, its directory or its entry point."""
        return self._extension.name

    @property
    def events(self) -> EventBus:
        """The event bus that all extensions share: `fl.events.on(name, handler)`, `fl.events.emit(name, data)`."""
        return self._extension.bus

    @property
    def state(self) -> State:
        """A dict of JSON values that is saved in the session and restored when the session is resumed."""
        return self._extension.state

    # Listening

    @overload
    def on(self, event: str, handler: Callable[..., Any], *, timeout: float | None = None) -> Callable[[], None]: ...
    @overload
    def on(self, event: str, handler: None = None, *, timeout: float | None = None) -> Callable[[F], F]: ...
    def on(self, event: str, handler: Callable[..., Any] | None = None, *, timeout: float | None = None) -> Any:
        """Call `handler(event, context)` whenever `event` happens. Without a handler, this is a decorator.

        Args:
            event: the name of the event.
            handler: a function or a coroutine function. It may leave out the context, or both arguments.
            timeout: the seconds that the handler may take; None uses the limit in the settings.

        Returns a function that removes the handler again. Raises ConfigError if there is no such event.
        """
        self._extension.require_loaded()

        if event not in EVENTS:
            raise ConfigError(_unknown_event(event, list(EVENTS)))
        check_types(float | None, timeout=timeout)
        if timeout is not None and not timeout > 0:
            raise ConfigError("timeout: expected a number of seconds above 0.")
        extension, engine = self._extension, self._engine

        def add(function: Any) -> Callable[[], None]:
            listener = make_handler(extension, function, timeout)
            engine.listen(event, listener)
            return lambda: engine.unlisten(event, listener)

        def decorate(function: F) -> F:
            add(function)
            return function

        return decorate if handler is None else add(handler)

    # Registering

    @overload
    def register_tool(self, function: F, /) -> F: ...
    @overload
    def register_tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        label: str = "",
        parameters: dict[str, Any] | None = None,
        snippet: str = "",
        guidelines: Sequence[str] = (),
        exclusive: bool = False,
        timeout: float | None = None,
    ) -> Callable[[F], F]: ...
    def register_tool(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        label: str = "",
        parameters: dict[str, Any] | None = None,
        snippet: str = "",
        guidelines: Sequence[str] = (),
        exclusive: bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Give the model a tool. This is a decorator, with or without arguments.

        By default, the tool takes its name, description and parameters from the function: from its name, its docstring and its
        type hints. `Annotated[str, "text"]` describes a parameter, and so does the docstring. A parameter of the type `Context`
        or `ToolRunContext` gets the context of the call.

        A coroutine function runs on the agent's event loop. A plain function runs on a thread and may block. Either returns text,
        content blocks, a `ToolResult` or any JSON value. An exception fails the call; its text goes to the model.

        Args:
            parameters: a JSON Schema for the arguments. The function then gets the arguments as one dict.
            snippet: a line about the tool for the system prompt.
            guidelines: rules about the tool for the system prompt.
            exclusive: whether the tool changes something on the machine and must not run beside others.
            timeout: the seconds that a call may take; None sets no limit.

        Raises ConfigError if the function cannot be a tool, or if another tool has its name.
        """
        self._extension.require_loaded()
        check_types(str | None, name=name, description=description)
        check_types(str, label=label, snippet=snippet)
        check_types(list[str], guidelines=guidelines)
        check_types(float | None, timeout=timeout)

        def add(function: F) -> F:
            called = name or getattr(function, "__name__", "")
            if not TOOL_NAME.fullmatch(called):
                raise ConfigError(f"{called!r} cannot be the name of a tool: use 1 to 64 letters, digits, _ and -.")
            text = description or summary(function)
            if not text:
                raise ConfigError(f"The tool {called} needs a description. Pass one, or give its function a docstring.")
            draft = ToolDraft(
                function, called, text, label, parameters, snippet, tuple(guidelines), exclusive=exclusive, timeout=timeout
            )
            self._engine.registrations.add_tool(self._extension, draft)
            return function

        return add if function is None else add(function)

    def unregister_tool(self, name: str) -> None:
        """Remove a tool of this extension. Does nothing if it has no tool with this name."""
        self._extension.require_loaded()
        self._engine.registrations.remove_tool(self._extension, name)

    @overload
    def register_command(
        self, name: str, handler: Callable[..., Any], description: str = "", complete: Callable[..., Any] | None = None
    ) -> str: ...
    @overload
    def register_command(
        self, name: str, handler: None = None, description: str = "", complete: Callable[..., Any] | None = None
    ) -> Callable[[F], F]: ...
    def register_command(
        self,
        name: str,
        handler: Callable[..., Any] | None = None,
        description: str = "",
        complete: Callable[..., Any] | None = None,
    ) -> Any:
        """Add a slash command: `/name arguments` calls `handler(arguments, context)` instead of prompting the model.

        The handler gets the arguments as text, and a `CommandContext`. It has no time limit. Without a handler, this is a
        decorator. `complete(typed, context)` suggests arguments while the user types them: it returns a list of texts or
        `Completion`s, each of which can take the place of what is typed.

        Returns the name of the command. If another extension already has the name, a number is added. Raises ConfigError if the
        name is not one word without a slash. The name may also be "/", for a command that is called as "//".
        """
        self._extension.require_loaded()
        name, description = convert(str, name, "name"), convert(str, description, "description")
        if not name or (name.startswith("/") and name != "/") or any(char.isspace() for char in name):
            raise ConfigError(f"{name!r} cannot be the name of a command: use one word, without the slash.")

        completes = None if complete is None else make_handler(self._extension, complete)

        def add(function: Any) -> str:
            free = self._engine.registrations.free_command_name(self._extension, name)
            listener = make_handler(self._extension, function)
            summary = description or (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
            self._extension.commands[free] = ExtensionCommand(free, summary, listener, completes)
            return free

        def decorate(function: F) -> F:
            add(function)
            return function

        return decorate if handler is None else add(handler)

    def register_flag(self, name: str, type: FlagType = "boolean", default: FlagValue = None, description: str = "") -> FlagValue:
        """Accept `--name` on the command line, or `--name VALUE` if the type is `string`.

        Returns the value from the command line, or `default`. Raises ConfigError if the name or type cannot be used, or a value
        is missing.
        """
        if not _FLAG_NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot be the name of a flag: use lower-case letters, digits and hyphens.")
        if type not in ("boolean", "string"):
            raise ConfigError(f'--{name}: expected the type "boolean" or "string", got {type!r}.')
        self._extension.flags[name] = ExtensionFlag(name, type, default, description)
        return self.get_flag(name)

    def get_flag(self, name: str) -> FlagValue:
        """Return the value of a flag of this extension from the command line, or its default.

        Raises ConfigError if this extension has not registered the flag, or the flag needs a value and has none.
        """
        if name not in self._extension.flags:
            raise ConfigError(f"This extension has not registered the flag --{name}.")
        return self._engine.registrations.flag_value(self._extension.flags[name])

    def register_provider(
        self, name: str, config: Mapping[str, Any] | None = None, *, stream: ProviderStream | None = None
    ) -> None:
        """Add a provider of models.

        Args:
            name: the name of the provider.
            config: its description, with the fields of models.json (baseUrl, api, apiKey, models ...).
            stream: `async def stream(model, request, cancel)`, which asks a model and yields text, `ThinkingContent`, `ToolCall`
                and `Usage`. With it, models need no baseUrl, no api and no key.

        Raises ConfigError if the description cannot be used, or if another extension has the provider.
        """
        self._extension.require_loaded()
        check_types(str, name=name)
        self._engine.registrations.add_provider(self._extension, name, dict(config or {}), stream)

    def unregister_provider(self, name: str) -> None:
        """Remove a provider of this extension. Does nothing if it has no provider with this name."""
        self._engine.registrations.remove_provider(self._extension, name)

    # Acting on the session

    def send_message(
        self,
        custom_type: str,
        content: str | list[UserBlock],
        *,
        display: bool = True,
        details: Any = None,
        deliver: Literal["steer", "follow_up", "next_turn"] | None = None,
        trigger_turn: bool = False,
    ) -> None:
        """Add a message for the model to the session. Without a run, it is added at once.

        Args:
            custom_type: a name for this kind of message, for hosts.
            content: what the model gets.
            display: whether hosts should show the message.
            details: JSON for hosts; the model does not get it.
            deliver: when a message that is sent during a run reaches the model (`steer` by default). `next_turn` keeps it for
                the next prompt.
            trigger_turn: whether to start a run if none is active.
        """
        session = self._live_session()
        custom_type, said = convert(str, custom_type, "custom_type"), convert(str | list[UserBlock], content, "content")
        check_types(bool, display=display)
        check_types(Literal["steer", "follow_up", "next_turn"] | None, deliver=deliver)

        async def send() -> None:
            await session.queue.send_message(
                custom_type, said, display=display, details=details, deliver=deliver, trigger_turn=trigger_turn
            )

        starts_run = trigger_turn and not session.activity.is_streaming
        self._engine.send(self._extension, "send_message", send, starts_run=starts_run)

    def send_user_message(
        self,
        content: str,
        images: list[ImageContent] | None = None,
        *,
        deliver: Deliver | None = "steer",
        expand: bool = False,
    ) -> None:
        """Send a message to the agent as the user would. It starts a run, or is queued if a run is active.

        Args:
            content: the text of the message.
            images: images for the model.
            deliver: when a message that is sent during a run reaches the model; None: such a message fails.
            expand: whether slash commands in the message are run or expanded.
        """
        session = self._live_session()
        text, shown = convert(str, content, "content"), convert(list[ImageContent] | None, images, "images")
        check_types(Deliver | None, deliver=deliver)
        check_types(bool, expand=expand)

        async def send() -> None:
            behavior = "followUp" if deliver == "follow_up" else deliver
            await session.prompt(text, shown, expand=expand, source="extension", behavior=behavior)

        self._engine.send_later(self._extension, "send_user_message", send)

    def append_entry(self, custom_type: str, data: Any = None) -> str:
        """Save JSON in the session. The model does not get it. Returns the id of the new entry."""
        return self._live_session().history.append_entry(convert(str, custom_type, "custom_type"), data)

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Set the label of an entry; None removes it. Raises EntryNotFound."""
        self._live_session().history.set_label(entry_id, convert(str | None, label, "label"))

    def get_session_name(self) -> str | None:
        """Return the name of the session, or None."""
        return self._live_session().history.name

    def set_session_name(self, name: str) -> None:
        """Rename the session. Raises BadCommand if the name is empty."""
        self._live_session().history.set_name(convert(str, name, "name"))

    async def exec(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        timeout: float | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        cancel: CancelToken | None = None,
    ) -> ExecResult:
        """Run a program, without a shell.

        Args:
            timeout: the seconds after which the program and its children are killed.
            cwd: its working directory; the agent's by default.
            env: variables to add to the agent's environment.
            cancel: kills the program and its children when it fires.

        Returns its output and exit code. Raises OSError if the program cannot be started.
        """
        workspace = self._engine.session.host.workspace
        return await run_program(
            command,
            args,
            cwd=workspace.resolve(str(cwd)) if cwd is not None else workspace.cwd,
            env={**workspace.env, **(env or {})},
            timeout=timeout,
            cancel=cancel,
        )

    def get_active_tools(self) -> list[str]:
        """Return the names of the tools that the model may use."""
        return self._live_session().tools.active

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Set the tools that the model may use. Raises BadCommand if a name is unknown."""
        self._live_session().tools.activate(names)

    def get_all_tools(self) -> list[Tool]:
        """Return all tools, including those that the model may not use."""
        return list(self._live_session().tools.values())

    def get_commands(self) -> list[SlashCommand]:
        """Return all slash commands: those of extensions, prompt templates and skills."""
        return self._live_session().additions.slash_commands()

    def set_model(self, model: str | Model) -> Model:
        """Switch to another model: a `Model`, or `provider/id`. Returns it. Raises ModelNotFound."""
        provider, _, model_id = model.partition("/") if isinstance(model, str) else (model.provider, "", model.id)
        return self._live_session().models.set_model(provider, model_id)

    def get_thinking_level(self) -> ThinkingLevel:
        """Return the model's thinking level."""
        return self._live_session().thinking

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Set the model's thinking level. A level that the model does not support becomes the nearest one that it does.

        Raises ConfigError if there is no such level.
        """
        if level not in THINKING_LEVELS:
            raise ConfigError(f"{level!r} is not a thinking level. Use one of {', '.join(THINKING_LEVELS)}.")
        self._live_session().models.set_thinking(level)

    def _live_session(self) -> Session:
        """Return the session, if this extension may act on it now. Raises RuntimeError if not."""
        return self._engine.session_for(self._extension)


def _unknown_event(event: str, known: list[str]) -> str:
    near = difflib.get_close_matches(event, known, 3, 0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"The events are: {', '.join(known)}."
    return f"There is no event {event!r}. {hint}"
