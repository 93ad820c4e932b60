"""What extensions have registered: tools, providers, flags, commands and handlers; and the bus for events between them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_type_hints

from msgspec import Struct

from fairlead.core.functions import FunctionTool, as_tool_result
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import BadCommand, ConfigError, FairleadError, ToolError
from fairlead.extend.extensions.calling import Deadline, Steps, call_in_thread, error_text
from fairlead.extend.extensions.context import TOOL_CONTEXTS, ToolRunContext
from fairlead.extend.extensions.discovery import FoundExtension, module_name
from fairlead.extend.extensions.values import State, model_stream
from fairlead.models.models_json import provider_entry
from fairlead.session.toolbox import TOOL_SEARCH

if TYPE_CHECKING:
    from fairlead.core.model import Model, ModelStream
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.extensions.values import ProviderStream
    from fairlead.extend.mcp.config import ServerConfig
    from fairlead.models.added_logins import AddedLogin

#: Calls a handler in the name of the extension that registered it.
Start: TypeAlias = Callable[[str, Callable[[], Any]], None]
Listeners: TypeAlias = dict[str, list[tuple[Start, Callable[[Any], Any]]]]


class EventBus:
    """Events that extensions send to each other, by name. All extensions of a session share one bus."""

    def __init__(self, listeners: Listeners, start: Start) -> None:
        self._listeners = listeners
        self._start = start
        self._is_closed = False

    def on(self, name: str, handler: Callable[[Any], Any]) -> Callable[[], None]:
        """Call `handler(data)` whenever an extension emits `name`.

        Returns a function that removes the handler again. Raises TypeError if `handler` is not callable, and RuntimeError if the
        extension has been reloaded.
        """
        self._be_open()
        if not callable(handler):
            raise TypeError(f"A handler must be a function, not {type(handler).__name__}.")
        listener = self._start, handler
        self._listeners.setdefault(name, []).append(listener)

        def remove() -> None:
            if listener in self._listeners.get(name, ()):
                self._listeners[name].remove(listener)

        return remove

    def emit(self, name: str, data: Any = None) -> None:
        """Pass `data` to all handlers of `name`. They are called soon, in order; this method does not wait for them.

        Raises RuntimeError if the extension has been reloaded.
        """
        self._be_open()
        for start, handler in list(self._listeners.get(name, ())):
            start(f"bus:{name}", lambda handler=handler: handler(data))

    def close(self) -> None:
        """Remove the handlers of this extension, and stop it from emitting events."""
        self._is_closed = True
        for name, listeners in self._listeners.items():
            self._listeners[name] = [listener for listener in listeners if listener[0] is not self._start]

    def _be_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("This extension was reloaded. Its old code can no longer use the event bus.")


#: A handler gets at most an event, or the arguments of a command, and the context.
_MAX_ARGUMENTS = 2

FlagType: TypeAlias = Literal["boolean", "string"]
FlagValue: TypeAlias = bool | str | None


class ExtensionFlag(Struct, frozen=True):
    """A command-line flag of an extension."""

    name: str
    type: FlagType
    default: FlagValue
    description: str


class Handler(Struct, eq=False, frozen=True):
    """A function that an extension registered for an event or a command. `takes` is how many arguments it wants."""

    owner: Extension
    function: Callable[..., Any]
    takes: int
    timeout: float | None
    #: Whether it belongs to the program that uses the library. It comes after the others, and its errors are raised.
    is_program: bool = False

    def bind(self, *given: Any) -> Callable[[], Any]:
        """Return a function without parameters that calls the handler with as many of these values as it takes."""
        return lambda: self.function(*given[: self.takes])


class ExtensionCommand(Struct, eq=False, frozen=True):
    """A slash command of an extension."""

    name: str
    description: str
    handler: Handler
    #: Suggests arguments.
    complete: Handler | None = None


class Extension:
    """An extension that is loaded or being loaded, with everything it has registered."""

    def __init__(self, found: FoundExtension, bus: EventBus) -> None:
        self.found = found
        self.name = found.name
        self.path = found.shown_path
        self.module_name = module_name(found)
        self.bus = bus
        self.state = State(found.name)
        self.tools: dict[str, Tool] = {}
        self.commands: dict[str, ExtensionCommand] = {}
        self.flags: dict[str, ExtensionFlag] = {}
        self.providers: set[str] = set()
        #: The MCP servers, each as it was described.
        self.mcp_servers: dict[str, Mapping[str, Any]] = {}
        #: The virtual models, by provider and id.
        self.virtual_models: set[tuple[str, str]] = set()
        #: False after it failed to load or was reloaded.
        self.is_loaded = True

    def require_loaded(self) -> None:
        """Raise RuntimeError if the extension was reloaded and this is its old code."""
        if not self.is_loaded:
            raise RuntimeError(f"The extension {self.name} was reloaded. Its old code can no longer act on the agent.")


def make_handler(owner: Extension, function: Callable[..., Any], timeout: float | None = None) -> Handler:
    """Return a handler that gets as many arguments as the function needs. Raises TypeError if it needs more than two.

    Parameters with defaults belong to the author: `lambda event, name=name: ...` is how a loop binds a variable.
    """
    if not callable(function):
        raise TypeError(f"A handler must be a function, not {type(function).__name__}.")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # a function written in C
        return Handler(owner, function, _MAX_ARGUMENTS, timeout)
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return Handler(owner, function, _MAX_ARGUMENTS, timeout)
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = sum(each.default is each.empty for each in positional)
    if needed > _MAX_ARGUMENTS or any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters):
        name = getattr(function, "__name__", "The handler")
        expected = "the event (or the arguments of a command) and the context"
        raise TypeError(f"{name} must take at most {_MAX_ARGUMENTS} arguments: {expected}.")
    return Handler(owner, function, needed, timeout)


class Registrations:
    """Adds what extensions register to the session, and removes it again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # Tools

    def add_tool(self, extension: Extension, draft: ToolDraft) -> None:
        """Add a tool. Raises ConfigError if it cannot be one, or if another tool has its name."""
        tool = make_tool(draft, TOOL_CONTEXTS, self._invoker(extension, draft))
        before = dict(extension.tools)
        extension.tools[tool.name] = tool
        try:
            self._update_toolbox(extension)
        except BadCommand:
            extension.tools = before
            raise ConfigError(f"A tool named {tool.name} already exists. Give yours another name.") from None

    def add_made_tool(self, extension: Extension, tool: Tool, *, is_active: bool) -> None:
        """Add a tool of an extension that runs elsewhere. It may stand in for a built-in one. Raises ConfigError."""
        before = dict(extension.tools)
        extension.tools[tool.name] = tool
        try:
            self._update_toolbox(extension, inactive=() if is_active else (tool.name,))
        except BadCommand:
            extension.tools = before
            raise ConfigError(f"A tool named {tool.name} already exists. Give yours another name.") from None

    def remove_tool(self, extension: Extension, name: str) -> None:
        if extension.tools.pop(name, None) is not None:
            self._update_toolbox(extension)

    def _update_toolbox(self, extension: Extension, inactive: tuple[str, ...] = ()) -> None:
        tools = list(extension.tools.values())
        idle = [tool.name for tool in tools if not self._engine.host.is_wanted(tool.name)]
        self._engine.session.tools.replace(
            _owner(extension),
            tools,
            inactive=[*idle, *inactive],
            instead=extension.found.is_script,
            searchable=self._engine.host.is_wanted(TOOL_SEARCH),
        )

    def _invoker(self, extension: Extension, draft: ToolDraft) -> Any:
        engine = self._engine

        async def invoke(function: Callable[[Any], Any], context: ToolContext) -> Any:
            deadline = Deadline(None)  # the session enforces the time limit of a tool
            mine = ToolRunContext(engine, deadline, context)
            try:
                if iscoroutinefunction(draft.function):
                    return await engine.call(extension, lambda: function(mine), deadline)
                return await call_in_thread(lambda: function(mine))
            except FairleadError as error:
                raise error if isinstance(error, ToolError) else ToolError(str(error)) from error
            except Exception as error:
                raise ToolError(error_text(error)) from error
            finally:
                engine.save_state(extension, f"tool:{draft.name}")

        return invoke

    # Providers

    def add_provider(
        self,
        extension: Extension,
        name: str,
        config: dict[str, Any],
        stream: ProviderStream | None,
        login: AddedLogin | None = None,
    ) -> None:
        """Add a provider. Raises ConfigError if its description cannot be used, or if another extension has the name."""
        engine = self._engine
        others = (each for each in engine.extensions if each is not extension and name in each.providers)
        if (other := next(others, None)) is not None:
            raise ConfigError(f"The extension {other.name} has already registered the provider {name}.")
        entry = provider_entry(name, config, complete=stream is None)
        if stream is None:
            engine.host.registry.add_provider(name, entry, login=login)
        else:
            engine.host.registry.add_provider(name, entry, model_stream(stream, _stepwise), login)
        extension.providers.add(name)

    def remove_provider(self, extension: Extension, name: str) -> None:
        if name in extension.providers:
            extension.providers.discard(name)
            self._engine.host.registry.remove_provider(name)

    def add_virtual_model(self, extension: Extension, model: Model, stream: ModelStream) -> None:
        """Add a model that stands for others. Raises ConfigError if a model that is not virtual has its name."""
        self._engine.host.registry.add_virtual_model(model, stream)
        extension.virtual_models.add((model.provider, model.id))

    def remove_virtual_model(self, extension: Extension, provider: str, model_id: str) -> None:
        if (provider, model_id) in extension.virtual_models:
            extension.virtual_models.discard((provider, model_id))
            self._engine.host.registry.remove_virtual_model(provider, model_id)

    # MCP servers

    def add_mcp_server(self, extension: Extension, config: ServerConfig, described: Mapping[str, Any]) -> None:
        """Add an MCP server, or replace one of this extension. Raises ConfigError if another extension has the name."""
        owner = next((each for each in self._engine.extensions if config.name in each.mcp_servers), extension)
        if owner is not extension:
            raise ConfigError(f'MCP server "{config.name}" is already registered by extension "{owner.path}"')
        self.remove_mcp_server(extension, config.name)
        extension.mcp_servers[config.name] = described
        exposures = config.exposures.values()
        if described.get("enabled") is not False and (not exposures or any(each != "hidden" for each in exposures)):
            self._engine.host.servers().add(config)

    def remove_mcp_server(self, extension: Extension, name: str) -> None:
        if extension.mcp_servers.pop(name, None) is not None:
            self._engine.host.servers().remove(name)

    # Commands and flags

    def free_command_name(self, extension: Extension, name: str) -> str:
        """Return `name`, with a number if another extension has a command with the same name."""
        taken = {each for other in self._engine.extensions if other is not extension for each in other.commands}
        number, free = 1, name
        while free in taken:
            number += 1
            free = f"{name}:{number}"
        return free

    def flags(self) -> list[ExtensionFlag]:
        return [flag for extension in self._engine.extensions for flag in extension.flags.values()]

    def flag_value(self, flag: ExtensionFlag) -> FlagValue:
        """Return the value of a flag from the command line, or its default. Raises ConfigError if a value is missing."""
        given = self._engine.host.flags
        if flag.name not in given:
            return flag.default
        value = given[flag.name]
        if flag.type == "boolean":
            return True
        if value is None:
            raise ConfigError(f"--{flag.name} needs a value.")
        return value

    def remove_all(self, extension: Extension) -> None:
        """Remove everything that an extension has registered."""
        if extension.tools:
            extension.tools.clear()
            self._update_toolbox(extension)
        for name in list(extension.providers):
            self.remove_provider(extension, name)
        for provider, model_id in list(extension.virtual_models):
            self.remove_virtual_model(extension, provider, model_id)
        for name in list(extension.mcp_servers):
            self.remove_mcp_server(extension, name)
        extension.commands.clear()
        extension.flags.clear()


def _owner(extension: Extension) -> str:
    return f"extension {extension.path if extension.found.is_script else extension.name}"


def _stepwise(work: Any) -> Any:
    return Steps(work, Deadline(None), lambda: None)


class ToolDraft(Struct, frozen=True):
    """What an extension passed to `register_tool`."""

    function: Callable[..., Any]
    name: str
    description: str
    label: str = ""
    #: A JSON Schema for the arguments. If it is None, one is made from the function's type hints.
    parameters: dict[str, Any] | None = None
    snippet: str = ""
    guidelines: tuple[str, ...] = ()
    exclusive: bool = False
    timeout: float | None = None


#: Calls a function of an extension with a context, and returns its result.
Invoke = Callable[[Callable[[Any], Any], ToolContext], Awaitable[Any]]


def make_tool(draft: ToolDraft, context_types: tuple[type[Any], ...], invoke: Invoke) -> Tool:
    """Make a tool from a draft. Raises ConfigError if that is not possible.

    A parameter whose type is one of `context_types` gets the context of the call. The model does not see it.
    """
    try:
        bound, parameters = _bind(draft, context_types)
    except TypeError as error:
        raise ConfigError(str(error)) from error

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return as_tool_result(await invoke(lambda mine: bound(arguments, mine), context))

    tool = Tool(
        name=draft.name,
        description=draft.description,
        parameters=parameters,
        run=run,
        label=draft.label,
        snippet=draft.snippet,
        guidelines=draft.guidelines,
        exclusive=draft.exclusive,
        timeout=draft.timeout,
    )
    try:
        tool.check_schema()
    except ToolError as error:
        raise ConfigError(f"The tool {draft.name}: {error}") from None
    return tool


def _bind(draft: ToolDraft, context_types: tuple[type[Any], ...]) -> tuple[Callable[[dict[str, Any], Any], Any], dict[str, Any]]:
    """Return a function that takes the arguments and the context of a call, and the schema of the arguments.

    Raises TypeError if the function cannot be a tool.
    """
    if draft.parameters is None:
        made = FunctionTool(draft.function, context_types, name=draft.name, description=draft.description)
        return (lambda arguments, context: draft.function(**made.arguments(arguments, context))), made.parameters
    try:
        hints = get_type_hints(draft.function, include_extras=True)
    except Exception as error:  # a name in a hint cannot be resolved, for one of many reasons
        raise TypeError(f"The type hints of the tool {draft.name} cannot be read: {error}") from error
    contexts = [name for name, hint in hints.items() if name != "return" and hint in context_types]
    if sum(name not in contexts for name in inspect.signature(draft.function).parameters) != 1:
        raise TypeError(f"The tool {draft.name} has its own schema, so its function must take one dict with the arguments.")
    return (lambda arguments, context: draft.function(arguments, **dict.fromkeys(contexts, context))), draft.parameters
