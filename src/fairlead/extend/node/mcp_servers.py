"""MCP servers that extensions written for pi add to a session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.errors import ConfigError
from fairlead.extend.extensions.values import converted
from fairlead.extend.mcp.config import ServerConfig
from fairlead.session.additions import Origin

if TYPE_CHECKING:
    from fairlead.extend.extensions.registrations import Extension

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def registered_server(extension: Extension, name: str, config: Any) -> ServerConfig:
    """Return the server that an extension describes. Raises ConfigError, with the text that pi has, if it cannot be used."""
    try:
        return _server(name, config, Origin(Path(extension.path), "cli", "temporary"))
    except (ConfigError, TypeError) as error:
        raise ConfigError(f'Invalid MCP server registered by extension "{extension.path}": {error}') from None


def _server(name: str, config: Any, origin: Origin) -> ServerConfig:
    if not _NAME.fullmatch(name):
        raise ConfigError(f'invalid server name "{name}" (use letters, digits, "_" and "-")')
    if not isinstance(config, dict):
        raise ConfigError(f'server "{name}" must be an object')
    given: Mapping[str, Any] = converted(dict[str, Any], config, "config")
    kind, timeout = given.get("type"), given.get("timeout")
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise ConfigError(f'server "{name}": timeout must be a positive number of seconds')
    if kind == "sse":
        raise ConfigError(f'server "{name}": legacy SSE transport is not supported; use the streamable HTTP URL')
    common: dict[str, Any] = {"name": name, "origin": origin, "timeout": timeout}
    if isinstance(url := given.get("url"), str) and kind in (None, "http", "streamable-http"):
        if not url.lower().startswith(("http://", "https://")):
            raise ConfigError(f'server "{name}": url must be an http or https URL')
        return ServerConfig(url=url, headers=converted(dict[str, str], given.get("headers") or {}, "headers"), **common)
    if isinstance(command := given.get("command"), str) and kind in (None, "stdio"):
        return ServerConfig(
            command=(command, *converted(list[str], given.get("args") or [], "args")),
            env=converted(dict[str, str], given.get("env") or {}, "env"),
            cwd=converted(str | None, given.get("cwd"), "cwd"),
            **common,
        )
    raise ConfigError(f'server "{name}" needs either "command" (stdio) or "url" (streamable HTTP)')
