"""What fairlead uses of the mcp package and its libraries, loaded with the first attribute that is read.

They are an extra, and loading them takes most of a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import anyio
    import httpx2
    from mcp import Client, MCPError, types
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
    from mcp.shared.message import SessionMessage
    from mcp.types import (
        INTERNAL_ERROR,
        ErrorData,
        JSONRPCError,
        JSONRPCNotification,
        JSONRPCRequest,
        JSONRPCResponse,
        jsonrpc_message_adapter,
    )
    from pydantic import TypeAdapter

__all__ = [
    "INTERNAL_ERROR",
    "Client",
    "ErrorData",
    "JSONRPCError",
    "JSONRPCNotification",
    "JSONRPCRequest",
    "JSONRPCResponse",
    "ListenNotSupportedError",
    "MCPError",
    "SessionMessage",
    "SubscriptionLost",
    "TypeAdapter",
    "anyio",
    "httpx2",
    "jsonrpc_message_adapter",
    "sse_client",
    "streamable_http_client",
    "types",
]

#: Where each name comes from.
_HOMES = {
    "Client": "mcp",
    "ErrorData": "mcp.types",
    "INTERNAL_ERROR": "mcp.types",
    "JSONRPCError": "mcp.types",
    "JSONRPCNotification": "mcp.types",
    "JSONRPCRequest": "mcp.types",
    "JSONRPCResponse": "mcp.types",
    "ListenNotSupportedError": "mcp.client.subscriptions",
    "MCPError": "mcp",
    "SessionMessage": "mcp.shared.message",
    "SubscriptionLost": "mcp.client.subscriptions",
    "TypeAdapter": "pydantic",
    "anyio": "anyio",
    "httpx2": "httpx2",
    "jsonrpc_message_adapter": "mcp.types",
    "sse_client": "mcp.client.sse",
    "streamable_http_client": "mcp.client.streamable_http",
    "types": "mcp",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(_HOMES[name])
    found = globals()[name] = home if name == _HOMES[name] else getattr(home, name)
    return found
