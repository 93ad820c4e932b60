"""The resources of MCP servers: read by their URIs, `mcp://<server>/<uri of the resource>`, and listed by a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fairlead.core.runtime import Cancel
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools.truncate import head
from fairlead.tools.uris import Document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp import ClientSession, types

    from fairlead.extend.mcp.server import McpServer

SCHEME = "mcp://"
LIST_TOOL = "mcp_resources"


class McpUris:
    """Implements `fairlead.tools.uris.Uris`. `servers` waits for servers that are connecting, and returns all by key."""

    def __init__(self, servers: Callable[[Cancel], Awaitable[Mapping[str, McpServer]]]) -> None:
        self._servers = servers

    def has(self, path: str) -> bool:
        return path[: len(SCHEME)].lower() == SCHEME

    async def read(self, uri: str, cancel: Cancel) -> Document:
        from fairlead.extend.mcp.results import document

        key, _, resource = uri[len(SCHEME) :].partition("/")
        server = _find_server(await self._servers(cancel), key)
        if not resource:
            raise ToolError(f"{uri} names no resource. Use {SCHEME}{key}/ and the URI of the resource on the server.")

        async def ask(session: ClientSession) -> types.ReadResourceResult:
            return await session.read_resource(resource)

        return document(await server.request(f"Reading {uri}", ask, cancel), uri, key)

    async def write(self, uri: str, content: str, cancel: Cancel) -> list[str]:
        raise ToolError(f"{uri} cannot be written: resources of MCP servers are for reading only.")


def resources_tool(servers: Callable[[Cancel], Awaitable[Mapping[str, McpServer]]], timeout: float) -> Tool:
    """Return the tool that lists resources."""

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        found = {key: server for key, server in (await servers(context.cancel)).items() if server.offer.resources}
        wanted = arguments.get("server")
        if wanted is not None:
            found = {wanted: _find_server(found, wanted)}
        lines = [line for key, server in found.items() for line in await _listed(key, server, context.cancel)]
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
        snippet="List resources of MCP servers, which read can read",
        timeout=timeout,
    )


async def _listed(key: str, server: McpServer, cancel: Cancel) -> list[str]:
    """Return one line for each resource of a server. Templates, whose URIs have to be filled in, come last."""
    from mcp import MCPError

    from fairlead.extend.mcp.connection import all_pages

    async def ask(session: ClientSession) -> tuple[list[types.Resource], list[types.ResourceTemplate]]:
        resources = await all_pages(session.list_resources, lambda page: page.resources)
        try:
            templates = await all_pages(session.list_resource_templates, lambda page: page.resource_templates)
        except MCPError:  # a server need not support templates
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
