"""The resources and prompts of MCP servers.

A resource is read by its URI, `mcp://<server>/<uri of the resource>`, and a tool lists them. A prompt is a slash command,
`/mcp:<server>:<prompt> arguments`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from fairlead.core.messages import ImageContent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ConfigError, ToolError
from fairlead.extend.mcp import sdk
from fairlead.extend.mcp.connection import all_pages
from fairlead.extend.mcp.tools import document, prompt_text
from fairlead.extend.skills import split_arguments
from fairlead.session.slash_commands import SlashCommand
from fairlead.tools.files.targets import Document
from fairlead.tools.truncate import head

if TYPE_CHECKING:
    from mcp import ClientSession, types

    from fairlead.extend.mcp.server import McpServer

SCHEME = "mcp://"
LIST_TOOL = "mcp_resources"


class McpUris:
    """Implements `fairlead.tools.files.targets.Uris`. `servers` waits for servers that are connecting, and returns all by key."""

    def __init__(self, servers: Callable[[CancelToken], Awaitable[Mapping[str, McpServer]]]) -> None:
        self._servers = servers

    def has(self, path: str) -> bool:
        return path[: len(SCHEME)].lower() == SCHEME

    async def read(self, uri: str, cancel: CancelToken) -> Document:
        key, _, resource = uri[len(SCHEME) :].partition("/")
        server = _find_server(await self._servers(cancel), key)
        if not resource:
            raise ToolError(f"{uri} names no resource. Use {SCHEME}{key}/ and the URI of the resource on the server.")

        async def ask(session: ClientSession) -> types.ReadResourceResult:
            return await session.read_resource(resource)

        return document(await server.request(f"Reading {uri}", ask, cancel), uri, key)

    async def write(self, uri: str, content: str, cancel: CancelToken) -> list[str]:
        raise ToolError(f"{uri} cannot be written: resources of MCP servers are for reading only.")


def resources_tool(servers: Callable[[CancelToken], Awaitable[Mapping[str, McpServer]]], timeout: float) -> Tool:
    """Return the tool that lists resources."""

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        found = {key: server for key, server in (await servers(context.cancel)).items() if server.offer.resources}
        wanted = arguments.get("server")
        if wanted is not None:
            found = {wanted: _find_server(found, wanted)}
        lines = [line for key, server in found.items() for line in await _list_resources(key, server, context.cancel)]
        shown = head("\n".join(lines) or "There are no resources.")
        note = f"\n\n[The first {shown.output_lines} of {len(lines)} are shown.]" if shown.truncated else ""
        return ToolResult.text(f"{shown.content}{note}")

    return Tool(
        name=LIST_TOOL,
        label="MCP resources",
        description="List the resources of MCP servers, with the paths under which the read tool reads them.",
        parameters={
            "type": "object",
            "properties": {"server": {"type": "string", "description": "Only those of this server"}},
        },
        run=run,
        kind="search",
        snippet="List resources of MCP servers, which read can read",
        annotations={"readOnlyHint": True},
        timeout=timeout,
    )


async def _list_resources(key: str, server: McpServer, cancel: CancelToken) -> list[str]:
    """Return one line for each resource of a server. Templates, whose URIs have to be filled in, come last."""

    async def ask(session: ClientSession) -> tuple[list[types.Resource], list[types.ResourceTemplate]]:
        resources = await all_pages(session.list_resources, lambda page: page.resources)
        try:
            templates = await all_pages(session.list_resource_templates, lambda page: page.resource_templates)
        except sdk.MCPError:  # a server need not support templates
            templates = []
        return resources, templates

    resources, templates = await server.request(f"Listing the resources of {key}", ask, cancel)
    lines = [_line(f"{SCHEME}{key}/{each.uri}", each) for each in resources]
    return lines + [_line(f"{SCHEME}{key}/{each.uri_template}", each) for each in templates]


def _line(uri: str, resource: types.Resource | types.ResourceTemplate) -> str:
    kind = f" ({resource.mime_type})" if resource.mime_type else ""
    about = " ".join((resource.description or "").split())
    return f"{uri}  {resource.title or resource.name}{kind}" + (f": {about}" if about else "")


def _find_server(servers: Mapping[str, McpServer], key: str) -> McpServer:
    server = servers.get(key)
    if server is None:
        known = f"The servers are: {', '.join(servers)}." if servers else "There are none."
        raise ToolError(f'There is no MCP server "{key}" with resources. {known}')
    return server


COMMAND = "mcp:"


def prompt_commands(servers: Mapping[str, McpServer]) -> list[SlashCommand]:
    """Return the slash commands of all prompts. Prompts with spaces in their names are left out."""
    return [
        SlashCommand(f"{COMMAND}{key}:{prompt.name}", _description(prompt), "prompt", server.config.origin)
        for key, server in servers.items()
        for prompt in server.offer.prompts
        if prompt.name.split() == [prompt.name]
    ]


async def expand_prompt(text: str, servers: Mapping[str, McpServer], cancel: CancelToken) -> tuple[str, list[ImageContent]]:
    """Return the text and images that a slash command of a prompt stands for. Raises ConfigError if there is no such prompt."""
    words = text[1:].split(None, 1)
    command, written = words[0], words[1].strip() if len(words) > 1 else ""
    key, _, name = command.removeprefix(COMMAND).partition(":")
    server = servers.get(key)
    prompt = next((each for each in server.offer.prompts if each.name == name), None) if server is not None else None
    if server is None or prompt is None:
        known = ", ".join(f"/{each.name}" for each in prompt_commands(servers))
        raise ConfigError(f"There is no prompt /{command}. The prompts are: {known or 'none'}.")
    arguments = _arguments(command, prompt, written)

    async def ask(session: ClientSession) -> types.GetPromptResult:
        return await session.get_prompt(name, arguments)

    try:
        answer = await server.request(f"/{command}", ask, cancel)
    except ToolError as error:
        raise ConfigError(str(error)) from None
    return prompt_text(answer, key)


def _arguments(command: str, prompt: types.Prompt, written: str) -> dict[str, str]:
    """Match the words after a command with the arguments of a prompt.

    `name=value` sets the argument `name`. Other words fill the remaining arguments in order; the last one gets all words
    left.
    """
    declared = [argument.name for argument in prompt.arguments or []]
    given: dict[str, str] = {}
    unnamed: list[str] = []
    for word in split_arguments(written):
        name, equals, value = word.partition("=")
        if equals and name in declared:
            given[name] = value
        else:
            unnamed.append(word)
    free = [name for name in declared if name not in given]
    if unnamed and not free:
        raise ConfigError(f"/{command} takes no further argument: {' '.join(unnamed)}")
    for index, name in enumerate(free[: len(unnamed)]):
        is_last = index == len(free) - 1
        given[name] = " ".join(unnamed[index:]) if is_last else unnamed[index]
    missing = [argument.name for argument in prompt.arguments or [] if argument.required and argument.name not in given]
    if missing:
        raise ConfigError(f"/{command} needs {', '.join(missing)}: /{command} {_usage(prompt)}")
    return given


def _description(prompt: types.Prompt) -> str:
    about = prompt.description or prompt.title or prompt.name
    return f"{about} {_usage(prompt)}".strip()


def _usage(prompt: types.Prompt) -> str:
    return " ".join(f"<{each.name}>" if each.required else f"[{each.name}]" for each in prompt.arguments or [])
