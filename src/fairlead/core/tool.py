"""What a tool is, how its arguments are checked, and in which order the calls of one turn run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from fairlead.core.approval import FileChange, ToolKind
from fairlead.core.calls import arguments as call_arguments
from fairlead.core.calls import schema_cost
from fairlead.core.messages import TextContent, ToolCall, Usage, UserBlock
from fairlead.core.model import Strictness, ToolSpec
from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError

if TYPE_CHECKING:
    from fairlead.core.calls.execution import NestedResult

#: How the calls of one turn run, see `groups`.
Schedule: TypeAlias = Literal["together", "exclusive", "sequential"]

#: The keys that lead to a value in a call's arguments. Lists on the way do not count: ("edits", "newText") is
#: `{"edits": [{"newText": ...}]}`.
KeyPath: TypeAlias = tuple[str, ...]

#: How many characters of its arguments the model sees in an error.
_LONGEST_SHOWN = 20_000
#: How many characters the title of a call has at most.
_LONGEST_TITLE = 200


class ToolResult(Struct, omit_defaults=True):
    """What a tool returns: `content` for the model, `details` for the host."""

    content: list[UserBlock]
    #: Any JSON.
    details: Any = None
    #: The files that the call changed, as far as their texts are known and not too long. Neither the model nor the session file
    #: gets them.
    changes: list[FileChange] = []
    #: Whether the result is the last thing the run needs. If all results of a turn say so, the model is not asked again.
    ends_run: bool = False
    #: What model calls that the tool made itself have used.
    usage: Usage | None = None
    #: Whether the tool did its work and calls the result an error.
    failed: bool = False

    @classmethod
    def text(cls, text: str, details: Any = None) -> ToolResult:
        return cls([TextContent(text)], details)

    def detail(self, name: str) -> Any:
        """Return a field of the details; None if they do not have it, or are not an object."""
        details: object = self.details
        return cast("dict[str, Any]", details).get(name) if isinstance(details, dict) else None


class StructuredResult(ToolResult, kw_only=True):
    """A result that is also available as data. `structured` returns it, and is called only for hosts that want it."""

    structured: Callable[[], Any]


def as_structured(result: ToolResult, structured: Callable[[], Any]) -> StructuredResult:
    """Return a result that is also available as data, which `structured` returns."""
    fields = {name: getattr(result, name) for name in ToolResult.__struct_fields__}
    return StructuredResult(**fields, structured=structured)


class ApprovedFile(Struct, frozen=True):
    """The file that an `Approver` approved."""

    #: Its path with all links resolved.
    path: str
    #: The device and inode number of the file that was there; None if there was none.
    identity: tuple[int, int] | None


class Permission(Struct, frozen=True):
    """What an `Approver` approved."""

    #: The `target` of the call, see `ToolContext`; None if the call is not about a file.
    target: ApprovedFile | None = None
    #: Arguments to run the tool with instead of those that it was called with. The approver has checked them.
    arguments: dict[str, Any] | None = None


class CallTool(Protocol):
    """Calls another tool for a running tool. Events, hooks and approvals are the same as for a call of the model."""

    def __call__(
        self,
        name: str,
        tool: Tool | None,
        arguments: dict[str, Any],
        cancel: CancelToken,
        update: Callable[[ToolResult], None],
        /,
    ) -> Awaitable[NestedResult]:
        """Make the call and return its outcome. `tool` is None if no tool has this name. Raises nothing."""
        ...


class ToolContext(Struct, frozen=True):
    """What a running tool knows about its call."""

    call_id: str
    #: Fires when the run is aborted. The tool should then end soon, by raising `ToolError` with its output so far.
    cancel: CancelToken
    #: Shows the host an intermediate result. It never blocks, and the update may be dropped.
    update: Callable[[ToolResult], None]
    #: The file that an `Approver` approved. The path in the arguments may lead elsewhere by now, so the tool uses this file only.
    target: ApprovedFile | None = None
    #: Calls another tool; None where tools run outside a run.
    call_tool: CallTool | None = None

    def progress(self, output: str | ToolResult) -> None:
        """Show the host all output so far, not only what is new. It never blocks, and may be dropped."""
        self.update(ToolResult.text(output) if isinstance(output, str) else output)


class RunTool(Protocol):
    def __call__(self, arguments: dict[str, Any], context: ToolContext) -> Awaitable[ToolResult]: ...


class Approver(Protocol):
    """Decides whether a call may run. It is the last check, and sees the arguments that the tool will run with."""

    def check(
        self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: CancelToken
    ) -> Awaitable[Permission | None] | None:
        """Approve the call, or raise ToolError with a text for the model. The result is awaited at once; None: it may run.

        Asking a person can take long. The caller stops waiting when `cancel` fires.

        Returns what was approved, or None for a call that runs as it is and is not about a file.
        """
        ...


class ToolSubject(Struct, frozen=True):
    """The argument that names what a call is about. Approval rules match patterns against it.

    `command` is a command line for a shell. `path` is a file or folder (the working directory if the argument is missing), or a
    URI where the workspace can read URIs.
    """

    kind: Literal["command", "path"]
    argument: str
    #: Whether a call is about that argument; None: every call. Approval rules treat other calls of a command tool as a command
    #: that cannot be read.
    applies: Callable[[Mapping[str, Any]], bool] | None = None
    #: Returns the directory that a command runs in; None: the working directory.
    folder: Callable[[], str] | None = None


class ToolLocation(Struct, frozen=True):
    """A file that a call is about. An editor can follow the agent there."""

    #: The absolute path.
    path: str
    #: The first line that the call is about, from 1; None if it is about the whole file.
    line: int | None = None


class PreviewChanges(Protocol):
    """Returns what a call would change, without changing it. `target` is what the approver judged.

    It may raise ToolError if the call would fail. The result is empty if the changes are not known or too long.
    """

    def __call__(
        self, arguments: dict[str, Any], target: ApprovedFile | None, cancel: CancelToken, /
    ) -> Awaitable[list[FileChange]]: ...


#: See `Tool.exposure`.
Exposure: TypeAlias = Literal["direct", "deferred", "codemode"]


class Tool(Struct, frozen=True):
    """Something that the model can call.

    `run` gets arguments that satisfy `parameters`. It returns a `ToolResult` or raises `ToolError`.
    """

    name: str
    description: str
    #: A JSON Schema for an object.
    parameters: dict[str, Any]
    run: RunTool
    #: Other names that calls may use.
    aliases: tuple[str, ...] = ()
    #: A short name for people; `name` if empty.
    label: str = ""
    #: Its line in the system prompt's list of tools; if empty, it has none.
    snippet: str = ""
    #: Advice for the system prompt.
    guidelines: tuple[str, ...] = ()
    #: What it does, for hosts that show its calls.
    kind: ToolKind = "other"
    #: Describes a call on one line for people, such as "Read src/a.py (1-40)"; see `call_title`.
    title: Callable[[Mapping[str, Any]], str] | None = None
    #: Returns the files that a call is about; see `call_locations`.
    locations: Callable[[Mapping[str, Any]], list[ToolLocation]] | None = None
    #: Computes what a call would change, for people who decide about it.
    preview: PreviewChanges | None = None
    #: Calling it again with the same arguments has no further effect, so a call whose result was lost can be repeated.
    idempotent: bool = False
    #: Changes the machine: under the `exclusive` schedule it runs alone and in call order.
    exclusive: bool = False
    #: Its calls, and the other calls of their turn, run one after another, under every schedule.
    sequential: bool = False
    #: Changes nothing and runs nothing by itself, so it needs approval only if a rule says so.
    harmless: bool = False
    #: Its calls need approval where the mode asks for that. A function that the program itself gives as a tool says no.
    asks: bool = True
    #: How the model gets it: `direct`: while it is active. `deferred`: once the model has found it with `tool_search`, which is
    #: there for that. `codemode`: the same, but `tool_search` is not there only because of it; other tools can call it.
    exposure: Exposure = "direct"
    #: Works on the session that it was made for: sub-agents of that session do not get it.
    bound: bool = False
    #: What its calls are about; None: nothing that a rule could name, so rules match the arguments as JSON.
    subject: ToolSubject | None = None
    #: Where its arguments hold text that goes into a file. Stream rules look at each of these texts as the model writes it;
    #: without any, they look at the JSON of all arguments.
    file_texts: frozenset[KeyPath] = frozenset()
    #: Seconds until a call is cut off; None: no limit.
    timeout: float | None = 120.0
    #: Seconds that an aborted call has to end by itself and return what it has.
    grace: float = 0.4
    #: Converts arguments from an older form before they are checked.
    prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    #: Releases what the tool holds between calls when its session ends; for tools that are `bound`.
    close: Callable[[], Awaitable[None]] | None = None
    #: A JSON Schema for the data of its `StructuredResult`s; None: it is not known.
    output_schema: dict[str, Any] | None = None
    #: What its author says about it, by the names of MCP's hints, such as `readOnlyHint`. These are not verified.
    annotations: dict[str, bool] | None = None
    #: The group of tools that it belongs to, such as those of an MCP server: its `name` and its `aliases`.
    namespace: dict[str, Any] | None = None
    #: Asks the provider to keep the arguments of calls to `parameters`; None: the model may break the schema.
    strict: Strictness | None = None
    _check: list[Any] = []

    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.parameters, self.strict)

    def call_title(self, arguments: Mapping[str, Any]) -> str:
        """Return one line for people about a call, of limited length. The arguments may be unchecked or incomplete."""
        text = ""
        if self.title is not None:
            with suppress(Exception):  # arguments of any form
                text = " ".join(self.title(arguments).split())
        text = text or self.label or self.name
        return text if len(text) <= _LONGEST_TITLE else f"{text[: _LONGEST_TITLE - 1]}…"

    def call_locations(self, arguments: Mapping[str, Any]) -> list[ToolLocation]:
        """Return the files that a call is about. The arguments may be unchecked or incomplete."""
        if self.locations is not None:
            with suppress(Exception):  # arguments of any form
                return self.locations(arguments)
        return []

    def check_schema(self) -> None:
        """Raise ToolError if `parameters` is not a schema that arguments can be checked against."""
        if not self._check:
            self._check.append(_validator(self.parameters))

    def check_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments, ready for `run`: changed where that makes them fit the schema.

        Raises ToolError with a text for the model if they cannot fit.
        """
        if self.prepare is not None:
            arguments = self.prepare(arguments)
        self.check_schema()
        validator = self._check[0]
        if validator.is_valid(arguments):
            return arguments
        fitting = call_arguments.fit_arguments(self.parameters, arguments)
        if not validator.is_valid(fitting):
            raise invalid_arguments(self.name, call_arguments.problems(validator, self.parameters, fitting), arguments)
        return fitting


def invalid_arguments(tool: str, problems: Sequence[str], received: Mapping[str, Any] | str) -> ToolError:
    """The error for arguments that break a tool's schema."""
    lines = "\n".join(f"  - {problem}" for problem in problems)
    shown = received if isinstance(received, str) else msgspec.json.format(msgspec.json.encode(received), indent=2).decode()
    shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}… ({len(shown):,} characters in all)"
    return ToolError(f'Validation failed for tool "{tool}":\n{lines}\n\nReceived arguments:\n{shown}')


def find_tool(tools: Mapping[str, Tool], name: str) -> Tool | None:
    """Return the tool that a call means; None if there is none."""
    return tools.get(name) or next((tool for tool in tools.values() if name in tool.aliases), None)


def effective_schedule(calls: Sequence[ToolCall], tools: Mapping[str, Tool], schedule: Schedule) -> Schedule:
    """Return how the calls of one turn run: `sequential` if one of their tools needs that."""
    found = (find_tool(tools, call.name) for call in calls)
    return "sequential" if any(tool is not None and tool.sequential for tool in found) else schedule


def groups(calls: Sequence[ToolCall], tools: Mapping[str, Tool], schedule: Schedule) -> list[list[ToolCall]]:
    """Divide the calls of one turn into groups. The calls of a group run at the same time, the groups one after another.

    together    one group, unless a tool is `sequential`
    exclusive   each call of an `exclusive` tool is a group, and so are the other calls between two of these
    sequential  each call is a group
    """
    schedule = effective_schedule(calls, tools, schedule)
    if schedule == "together":
        return [list(calls)] if calls else []
    result: list[list[ToolCall]] = []
    shared = False
    for call in calls:
        tool = find_tool(tools, call.name)
        alone = schedule == "sequential" or (tool is not None and tool.exclusive)
        if shared and not alone:
            result[-1].append(call)
        else:
            result.append([call])
        shared = not alone
    return result


def _validator(schema: dict[str, Any]) -> Any:
    import jsonschema_rs  # noqa: PLC0415  takes 5 ms

    schema_cost.check_cost(schema)
    patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=schema_cost.MOST_BACKTRACKING)
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse_reference, pattern_options=patterns)
    except Exception as error:  # the library raises several kinds, which all mean the same here
        if "$schema" not in schema:
            with suppress(Exception):  # TypeBox writes tuples as drafts before 2020 did
                return jsonschema_rs.Draft7Validator(schema, retriever=_refuse_reference, pattern_options=patterns)
        raise ToolError(f"The tool's parameter schema is not a valid JSON Schema: {error}") from error


def _refuse_reference(uri: str) -> Any:
    raise ValueError(f"references outside the schema are not followed: {uri}")
