"""Functions as tools of an agent in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import Any, Literal, overload

from msgspec.structs import replace

from fairlead.core.functions import FunctionTool, as_tool_result
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import BadOption, ToolError
from fairlead.platform.process import run_in_thread


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    function: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    label: str = "",
    timeout: float | None = None,
    harmless: bool = False,
    asks: bool = False,
    exclusive: bool = False,
    idempotent: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    label: str = "",
    timeout: float | None = None,
    harmless: bool = False,
    asks: bool = False,
    exclusive: bool = False,
    idempotent: bool = False,
) -> Any:
    """Make a tool from a function. This is a decorator, with or without arguments.

    The function's name, docstring and type hints become the name, the description and the parameters of the tool.
    `Annotated[str, "text"]` describes a parameter, and so does the docstring. A parameter of the type `ToolContext` gets the
    context of the call, which reports progress and tells when the run is aborted.

    A coroutine function runs on the event loop. A plain function runs on a thread and may block. Either returns text, content
    blocks, a `ToolResult` or any JSON value. An exception fails the call, and the model sees its text.

    Args:
        function: the function.
        name: the name for the model; by default, that of the function.
        description: the description for the model; by default, the docstring up to its sections.
        label: a short name for people.
        timeout: the seconds that a call may take; None sets no limit.
        harmless: whether the function only reads, so that no approval is needed unless a rule says so.
        asks: whether its calls need approval where the approval mode asks about changes. By default they do not, since the
            program itself gave the function; the mode `deny` and rules still hold for it.
        exclusive: whether calls must not run beside others that are exclusive, under the schedules that respect this.
        idempotent: whether a call may be made again when its result was lost because the agent was killed.

    Returns:
        The tool, for `Agent(tools=[...])`; without a function, a decorator that returns it.

    Raises:
        TypeError: The function cannot be a tool: a parameter has no type hint, or one that JSON cannot express, for example.
    """

    def make(function: Callable[..., Any]) -> Tool:
        made = FunctionTool(function, [ToolContext], name=name, description=description)
        result = Tool(
            name=made.name,
            description=made.description,
            parameters=made.parameters,
            run=_runner(made),
            label=label,
            timeout=timeout,
            harmless=harmless,
            asks=asks,
            exclusive=exclusive,
            idempotent=idempotent,
        )
        try:
            result.check_schema()
        except ToolError as error:
            raise TypeError(f"The tool {made.name}: {error}") from None
        return result

    return make if function is None else make(function)


def _runner(made: FunctionTool) -> Any:
    function = made.function

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if made.is_async:
            return as_tool_result(await function(**made.arguments(arguments, context)))
        given = made.arguments(arguments, _for_thread(context) if made.context_parameters else context)
        value = await run_in_thread(lambda: function(**given), f"fairlead-tool-{made.name}")
        return as_tool_result(await value if isawaitable(value) else value)

    return run


def _for_thread(context: ToolContext) -> ToolContext:
    """Return a context whose `update` may be called from another thread."""
    loop = asyncio.get_running_loop()

    def update(result: ToolResult) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(context.update, result)

    return replace(context, update=update)


def make_tools(
    option: Literal["tools", "extra_tools"], given: Sequence[str | Tool | Callable[..., Any]], taken: Sequence[str]
) -> list[str | Tool]:
    """Return the entries of an option, with a tool for each function.

    Args:
        option: the name of the option, for errors.
        given: its entries.
        taken: the names of the built-in tools. A `Tool` may replace one of them, a function may not.

    Raises:
        TypeError: A function cannot be a tool.
        BadOption: A function has a name that is taken, or two tools have the same name.
    """
    made: list[str | Tool] = []
    names: set[str] = set()
    for each in given:
        if isinstance(each, str):
            made.append(each)
            continue
        is_function = not isinstance(each, Tool)
        try:
            own = tool(each) if is_function else each
        except TypeError as error:
            raise TypeError(f"{option}: {error}") from None
        if own.name in names:
            raise BadOption(f"{option}: expected different names, found two tools named {own.name!r}.")
        if is_function and own.name in taken:
            raise BadOption(
                f"{option}: expected a name that is free, found a function named {own.name!r}, like a built-in tool. Rename it, "
                f"or pass fairlead.tool({own.name}) to replace the built-in tool."
            )
        names.add(own.name)
        made.append(own)
    return made
