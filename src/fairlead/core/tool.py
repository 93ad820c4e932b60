"""What a tool is, how its arguments are checked, and in which order the calls of one turn may run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from fairlead.core.messages import TextContent, ToolCall, UserBlock
from fairlead.core.model import ToolSpec
from fairlead.core.runtime import Cancel
from fairlead.errors import ToolError

#: How the calls of one turn are run, see `groups`.
Schedule: TypeAlias = Literal["together", "exclusive", "sequential"]

#: Problems of one call that the model is told of.
MOST_PROBLEMS = 20
#: Characters of one problem, and of the arguments that are shown with it.
_LONGEST_PROBLEM = 1_000
_LONGEST_SHOWN = 20_000


class ToolResult(Struct, omit_defaults=True):
    """What a tool gives back: `content` for the model, `details` for the host."""

    content: list[UserBlock]
    details: dict[str, Any] | None = None

    @classmethod
    def text(cls, text: str, details: dict[str, Any] | None = None) -> ToolResult:
        return cls([TextContent(text)], details)


class ApprovedFile(Struct, frozen=True):
    """The file that an `Approver` approved: its path with all links resolved, and the device and number of what was there.

    None: there was nothing.
    """

    path: str
    identity: tuple[int, int] | None


class ToolContext(Struct, frozen=True):
    """What a running tool knows of its call.

    `cancel` fires when the run is aborted: the tool should end soon, by raising `ToolError` with what
    it had so far. `update` shows the host an intermediate result; it never blocks and may be dropped.
    `target` is what an `Approver` approved if the arguments may mean something else by now: for a path, the
    file that it led to. A tool acts on that and on nothing else.
    """

    call_id: str
    cancel: Cancel
    update: Callable[[ToolResult], None]
    target: ApprovedFile | None = None


class RunTool(Protocol):
    def __call__(self, arguments: dict[str, Any], context: ToolContext) -> Awaitable[ToolResult]: ...


class Approver(Protocol):
    """Decides whether a call may happen. It is asked last before the tool runs, with the arguments that it will run with."""

    async def check(self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: Cancel) -> ApprovedFile | None:
        """Return if the call may happen; raise ToolError, worded for the model, if not.

        Returns the `target` of the call (see `ToolContext`), or None if the arguments say it all. May take as long as a person
        takes: if `cancel` fires meanwhile, the answer is not waited for.
        """
        ...


class Tool(Struct, frozen=True):
    """Something the model may call.

    `run` gets arguments that satisfy `parameters`, and returns a `ToolResult` or raises `ToolError`.
    """

    name: str
    description: str
    #: A JSON Schema of an object.
    parameters: dict[str, Any]
    run: RunTool
    #: A few words for people; the name if empty.
    label: str = ""
    #: One line for the list of tools in the system prompt; none if empty.
    snippet: str = ""
    #: Advice for the system prompt.
    guidelines: tuple[str, ...] = ()
    #: Changes the machine: under the `exclusive` schedule it runs alone and in call order.
    exclusive: bool = False
    #: Changes nothing and runs nothing by itself: it needs nobody's approval unless a rule says so.
    harmless: bool = False
    #: Works on the session that it was made for: sub-agents of that session do not get it.
    bound: bool = False
    #: Seconds until it is cut off; None: no limit.
    timeout: float | None = 120.0
    #: Seconds that an aborted call has to end by itself and hand over what it has.
    grace: float = 0.4
    #: Repairs arguments in an older form before they are checked.
    prepare: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    #: Lets go of what the tool holds on to between calls, when its session ends; for tools that are `bound`.
    close: Callable[[], Awaitable[None]] | None = None
    _check: list[Any] = []

    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.parameters)

    def check_schema(self) -> None:
        """Raises ToolError if the parameters are not a schema that arguments can be checked against."""
        if not self._check:
            self._check.append(_validator(self.parameters))

    def checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments, ready for `run`. Raises ToolError, worded for the model, if they break the schema."""
        if self.prepare is not None:
            arguments = self.prepare(arguments)
        self.check_schema()
        validator = self._check[0]
        if not validator.is_valid(arguments):
            raise invalid_arguments(self.name, _problems(validator, self.parameters, arguments), arguments)
        return arguments


def invalid_arguments(tool: str, problems: Sequence[str], received: Mapping[str, Any] | str) -> ToolError:
    lines = "\n".join(f"  - {problem}" for problem in problems)
    shown = received if isinstance(received, str) else msgspec.json.format(msgspec.json.encode(received), indent=2).decode()
    shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}… ({len(shown):,} characters in all)"
    return ToolError(f'Validation failed for tool "{tool}":\n{lines}\n\nReceived arguments:\n{shown}')


def groups(calls: Sequence[ToolCall], tools: Mapping[str, Tool], schedule: Schedule) -> list[list[ToolCall]]:
    """The calls of one turn, in groups: the calls of a group run at once, the groups one after another.

    together    one group (pi)
    exclusive   a tool that changes the machine is a group of its own; its neighbours that do not, one (omp, xcsh)
    sequential  each call is a group (pi of 2025)
    """
    if schedule == "together":
        return [list(calls)] if calls else []
    result: list[list[ToolCall]] = []
    shared = False
    for call in calls:
        tool = tools.get(call.name)
        alone = schedule == "sequential" or (tool is not None and tool.exclusive)
        if shared and not alone:
            result[-1].append(call)
        else:
            result.append([call])
        shared = not alone
    return result


def _validator(schema: dict[str, Any]) -> Any:
    import jsonschema_rs

    from fairlead.core.schema_cost import MOST_BACKTRACKING, check_cost

    check_cost(schema)
    patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=MOST_BACKTRACKING)
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse_reference, pattern_options=patterns)
    except Exception as error:  # the library raises several kinds, all of which mean the same here
        raise ToolError(f"The tool's parameter schema is not a valid JSON Schema: {error}") from error


def _refuse_reference(uri: str) -> Any:
    raise ValueError(f"references outside the schema are not followed: {uri}")


def _problems(validator: Any, schema: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    """What is wrong with arguments that break a schema. If that would take too long to find out, only what is missing."""
    from fairlead.core.schema_cost import can_explain

    if can_explain(schema, arguments):
        return [_problem(error) for error in islice(validator.iter_errors(arguments), MOST_PROBLEMS)]
    required: Any = schema.get("required")
    names = cast("list[Any]", required) if isinstance(required, list) else []
    missing = [name for name in names if isinstance(name, str) and name not in arguments]
    return [f"{name}: is required" for name in missing[:MOST_PROBLEMS]] or [
        "The arguments do not match the tool's parameter schema. They are too large, or the schema is too complex, to say where."
    ]


def _problem(error: Any) -> str:
    path = ".".join(str(step) for step in error.instance_path)
    message = str(error.message)
    if len(message) > _LONGEST_PROBLEM:  # it may quote all of the arguments
        message = f"{message[: _LONGEST_PROBLEM // 2]} … {message[-_LONGEST_PROBLEM // 2 :]}"
    if message.endswith("is a required property"):
        name = message.removesuffix(" is a required property").strip("\"'")
        return f"{path}.{name}: is required" if path else f"{name}: is required"
    return f"{path}: {message}" if path else message
