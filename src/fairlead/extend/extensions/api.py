"""`fl`: what an extension is given to add itself to the agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from fairlead.core.messages import ImageContent, UserBlock
from fairlead.errors import ConfigError
from fairlead.extend.extensions.events import EventBus
from fairlead.extend.extensions.outbox import run_without_waiting
from fairlead.extend.extensions.registrations import Extension, ExtensionCommand, Flag, FlagType, FlagValue, make_handler
from fairlead.extend.extensions.state import State
from fairlead.extend.extensions.values import check_types, converted

if TYPE_CHECKING:
    from fairlead.core.model import Model, ThinkingLevel
    from fairlead.core.runtime import Cancel
    from fairlead.core.tool import Tool
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.extensions.programs import ExecResult
    from fairlead.extend.extensions.providers import ProviderStream
    from fairlead.session.additions import SlashCommand
    from fairlead.session.session import Session

F = TypeVar("F", bound=Callable[..., Any])

#: When a message is heard that is sent while the agent runs: as soon as it listens, or when it would stop.
Deliver: TypeAlias = Literal["steer", "follow_up"]

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FLAG_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


class Fairlead:
    """The agent, as an extension's `setup(fl)` gets it.

    What is registered can be registered at any time. What acts on the session (`send_message` and those below it) is for
    handlers, commands and tools: while `setup` runs, the session has not begun.
    """

    def __init__(self, engine: Engine, extension: Extension) -> None:
        self._engine = engine
        self._extension = extension

    @property
    def name(self) -> str:
        """What this extension is called: its file, its folder or its entry point."""
        return self._extension.name

    @property
    def events(self) -> EventBus:
        """A bus that all extensions share: `fl.events.on(name, handler)`, `fl.events.emit(name, data)`."""
        return self._extension.bus

    @property
    def state(self) -> State:
        """A dict of this extension's that is kept in the session, and is there again when the session is resumed."""
        return self._extension.state

    # Listening

    @overload
    def on(self, event: str, handler: Callable[..., Any], *, timeout: float | None = None) -> Callable[[], None]: ...
    @overload
    def on(self, event: str, handler: None = None, *, timeout: float | None = None) -> Callable[[F], F]: ...
    def on(self, event: str, handler: Callable[..., Any] | None = None, *, timeout: float | None = None) -> Any:
        """Call `handler(event, context)` when something happens; a function or a coroutine function, which may leave out the
        context. `timeout` is how many seconds it has, if not as many as the settings say.

        The returned function takes it back. Without a handler, this is a decorator. Raises ConfigError for an unknown event.
        """
        self._extension.require_loaded()
        from fairlead.extend.extensions.events import EVENTS

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
        """Give the model a tool: a decorator, with or without arguments.

        The tool's name, description and parameters are the function's: its name, its docstring, its type hints
        (`Annotated[str, Meta(description=...)]` describes one). A parameter of the type `Context` or `ToolRunContext` gets the
        context of the call. With `parameters`, a JSON Schema, the function gets the arguments as one dict instead.

        A coroutine function runs on the agent's loop, a plain one on a thread, where it may block. It returns text, content
        blocks, a `ToolResult`, or anything that JSON can hold; whatever it raises fails the call, and the model is told.
        `timeout` is in seconds; without one a call may take as long as it takes.
        """
        from fairlead.extend.extensions.tools import ToolDraft

        self._extension.require_loaded()
        check_types(str | None, name=name, description=description)
        check_types(str, label=label, snippet=snippet)
        check_types(list[str], guidelines=guidelines)
        check_types(float | None, timeout=timeout)

        def add(function: F) -> F:
            called = name or getattr(function, "__name__", "")
            if not _TOOL_NAME.fullmatch(called):
                raise ConfigError(f"{called!r} cannot be the name of a tool: expected up to 64 letters, digits, _ and -.")
            summary = description or (getattr(function, "__doc__", None) or "").strip()
            if not summary:
                raise ConfigError(f"The tool {called} needs a description, or its function a docstring: the model goes by it.")
            draft = ToolDraft(
                function, called, summary, label, parameters, snippet, tuple(guidelines), exclusive=exclusive, timeout=timeout
            )
            self._engine.registrations.add_tool(self._extension, draft)
            return function

        return add if function is None else add(function)

    def unregister_tool(self, name: str) -> None:
        """Take back a tool of this extension's."""
        self._extension.require_loaded()
        self._engine.registrations.remove_tool(self._extension, name)

    @overload
    def register_command(self, name: str, handler: Callable[..., Any], description: str = "") -> str: ...
    @overload
    def register_command(self, name: str, handler: None = None, description: str = "") -> Callable[[F], F]: ...
    def register_command(self, name: str, handler: Callable[..., Any] | None = None, description: str = "") -> Any:
        """Let users begin a prompt with `/name arguments`: `handler(arguments, context)` runs instead of the model, with the
        arguments as text and a `CommandContext`. It may take as long as it takes. Without a handler, this is a decorator.

        Returns the name that the command got: if another extension has it, one with a number.
        """
        self._extension.require_loaded()
        name, description = converted(str, name, "name"), converted(str, description, "description")
        if not name or name.startswith("/") or any(char.isspace() for char in name):
            raise ConfigError(f"{name!r} cannot be the name of a command: expected a word, without the slash.")

        def add(function: Any) -> str:
            free = self._engine.registrations.free_command_name(self._extension, name)
            listener = make_handler(self._extension, function)
            summary = description or (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
            self._extension.commands[free] = ExtensionCommand(free, summary, listener)
            return free

        def decorate(function: F) -> F:
            add(function)
            return function

        return decorate if handler is None else add(handler)

    def register_flag(self, name: str, type: FlagType = "boolean", default: FlagValue = None, description: str = "") -> FlagValue:
        """Accept `--name` on the command line, or `--name VALUE` if it is a `string`. Returns what was given, or `default`."""
        if not _FLAG_NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot be the name of a flag: expected small letters, digits and hyphens.")
        if type not in ("boolean", "string"):
            raise ConfigError(f'--{name}: expected the type "boolean" or "string", got {type!r}.')
        self._extension.flags[name] = Flag(name, type, default, description)
        return self.get_flag(name)

    def get_flag(self, name: str) -> FlagValue:
        """What the command line says of a flag of this extension's; its default if it says nothing. Raises ConfigError."""
        if name not in self._extension.flags:
            raise ConfigError(f"This extension has not registered the flag --{name}.")
        return self._engine.registrations.flag_value(self._extension.flags[name])

    def register_provider(
        self, name: str, config: Mapping[str, Any] | None = None, *, stream: ProviderStream | None = None
    ) -> None:
        """Add a provider of models, described as in models.json (baseUrl, api, apiKey, models ...). Raises ConfigError.

        With `stream`, the extension asks the models itself: `async def stream(model, request, cancel)` yields text, and
        `ThinkingContent`, `ToolCall` and `Usage` where there are any. Such models need neither baseUrl, api nor a key.
        """
        self._extension.require_loaded()
        check_types(str, name=name)
        self._engine.registrations.add_provider(self._extension, name, dict(config or {}), stream)

    def unregister_provider(self, name: str) -> None:
        """Take back a provider of this extension's."""
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
        """Add a message for the model. While the agent runs it is queued, as steering unless `deliver` says otherwise; else it
        is added at once, and starts a run if `trigger_turn` is set. `next_turn`: it goes with the next prompt.

        Hosts are told of it, and whether to `display` it; `details` are for them alone.
        """
        session, outbox = self._live_session(), self._engine.outbox
        custom_type, said = converted(str, custom_type, "custom_type"), converted(str | list[UserBlock], content, "content")
        check_types(bool, display=display)
        check_types(Literal["steer", "follow_up", "next_turn"] | None, deliver=deliver)

        async def send() -> None:
            await session.send_message(
                custom_type, said, display=display, details=details, deliver=deliver, trigger_turn=trigger_turn
            )

        if outbox.is_empty and not (trigger_turn and not session.is_streaming):
            run_without_waiting(send())
        else:
            self._engine.send_later(self._extension, "send_message", send)

    def send_user_message(self, content: str, images: list[ImageContent] | None = None, *, deliver: Deliver = "steer") -> None:
        """Say something to the agent as the user would; it is never taken for a slash command. It starts a run, or is queued
        if one is going on."""
        session = self._live_session()
        text, shown = converted(str, content, "content"), converted(list[ImageContent] | None, images, "images")
        check_types(Deliver, deliver=deliver)

        async def send() -> None:
            behavior = "followUp" if deliver == "follow_up" else "steer"
            await session.prompt(text, shown, expand=False, source="extension", behavior=behavior)

        self._engine.send_later(self._extension, "send_user_message", send)

    def append_entry(self, custom_type: str, data: Any = None) -> str:
        """Keep JSON in the session that the model is not told of. Returns the entry's id."""
        return self._live_session().append_entry(converted(str, custom_type, "custom_type"), data)

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Bookmark an entry; None takes its bookmark away. Raises EntryNotFound."""
        self._live_session().set_label(entry_id, converted(str | None, label, "label"))

    def get_session_name(self) -> str | None:
        """What the session is called."""
        return self._live_session().conversation.name

    def set_session_name(self, name: str) -> None:
        """Call the session something else. Raises BadCommand if that is nothing."""
        self._live_session().set_name(converted(str, name, "name"))

    async def exec(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        timeout: float | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        cancel: Cancel | None = None,
    ) -> ExecResult:
        """Run a program, without a shell, in the agent's directory and with its environment. After `timeout` seconds, or when
        `cancel` fires, it and its children are killed. Raises OSError if it cannot be started."""
        from fairlead.extend.extensions.programs import run_program

        workspace = self._engine.session.workspace
        return await run_program(
            command,
            args,
            cwd=workspace.resolve(str(cwd)) if cwd is not None else workspace.cwd,
            env={**workspace.env, **(env or {})},
            timeout=timeout,
            cancel=cancel,
        )

    def get_active_tools(self) -> list[str]:
        """The names of the tools that the model may use."""
        return self._live_session().active_tools

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Choose the tools that the model may use. Raises BadCommand for a name that no tool has."""
        self._live_session().set_active_tools(names)

    def get_all_tools(self) -> list[Tool]:
        """All tools, those that the model may not use included."""
        return list(self._live_session().tools.values())

    def get_commands(self) -> list[SlashCommand]:
        """All that a prompt can begin with: commands of extensions, prompt templates, skills."""
        return self._live_session().slash_commands()

    def set_model(self, model: str | Model) -> Model:
        """Have another model answer: a `Model`, or `provider/id`. Raises ModelNotFound."""
        provider, _, model_id = model.partition("/") if isinstance(model, str) else (model.provider, "", model.id)
        return self._live_session().selection.set_model(provider, model_id)

    def get_thinking_level(self) -> ThinkingLevel:
        """How much the model thinks."""
        return self._live_session().thinking

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Have the model think more, or less. A level that it does not have becomes the nearest one that it has."""
        from fairlead.core.model import THINKING_LEVELS

        if level not in THINKING_LEVELS:
            raise ConfigError(f"{level!r} is no thinking level: expected one of {', '.join(THINKING_LEVELS)}.")
        self._live_session().selection.set_thinking(level)

    def _live_session(self) -> Session:
        """The session, if this extension may act on it now."""
        return self._engine.session_for(self._extension)


def _unknown_event(event: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(event, known, 3, 0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"The events are: {', '.join(known)}."
    return f"There is no event {event!r}. {hint}"
