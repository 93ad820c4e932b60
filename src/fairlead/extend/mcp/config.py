"""mcp.json: which servers are configured.

    {"mcpServers": {"git": {"command": "mcp-server-git", "args": ["--repository", "."]}}, "disabledServers": []}

A server that cannot be used is left out, with a warning that names it. All others still work.

mcp-sign-ins.json in the home stores what OAuth has granted for servers, so that a server needs one sign-in and not one in each
session. Only its owner can read it. A sign-in belongs to the name and the URL of a server.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from fairlead.config import json_files, project_files
from fairlead.config.named_code import expand_variables
from fairlead.core.secrets import learn
from fairlead.errors import ConfigError
from fairlead.session.slash_commands import Origin

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from fairlead.core.messages import UserBlock

_LOOPBACK_URL = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/|$)", re.IGNORECASE)


class McpConfigFile(Struct, frozen=True):
    """A file of servers. If two files have a server with the same name, the later file is used.

    `named` is the flag that named the file. `within` is the directory that the file must be in, if it belongs to a project.
    """

    origin: Origin
    named: str | None = None
    within: Path | None = None


class OAuthSettings(Struct, frozen=True, rename="camel"):
    """How to sign in at a server with OAuth. All of it is optional: a server usually says what it needs."""

    #: fairlead as the authorization server knows it. Without an id, fairlead registers there.
    client_id: str | None = None
    client_secret: str | None = None
    #: The name to register under.
    client_name: str | None = None
    scope: str | None = None
    #: The port, or the whole address, that the browser returns to. It is on this machine.
    callback_port: int | None = None
    callback_url: str | None = None
    auth_server_metadata_url: str | None = None
    client_registration: str = "auto"

    def check(self) -> None:
        """Raise ConfigError if something cannot be used."""
        if self.auth_server_metadata_url is not None:
            raise ConfigError("oauth.authServerMetadataUrl is not supported: the server has to name its authorization server.")
        if self.client_registration not in ("auto", "dcr"):
            raise ConfigError(
                f'oauth.clientRegistration: expected "auto" or "dcr", found "{self.client_registration}". '
                "fairlead has no published document that identifies it."
            )
        if self.callback_port is not None and not 0 < self.callback_port < 65536:
            raise ConfigError(f"oauth.callbackPort: expected a port from 1 to 65535, found {self.callback_port}.")
        if self.callback_url is not None and not _LOOPBACK_URL.match(self.callback_url):
            raise ConfigError(
                "oauth.callbackUrl: expected a URL that begins with http://127.0.0.1, http://localhost or http://[::1], "
                f"found {json_files.describe_value(self.callback_url)}."
            )


#: How tools of a server can reach the model, as in pi. `direct`: like other tools. `deferred` and `codemode`: once the model has
#: found them with `tool_search`. `hidden`: not at all. The last of all is an older name.
EXPOSURES = ("codemode", "deferred", "direct", "hidden")
_ALL_EXPOSURES = (*EXPOSURES, "codemode-deferred")


#: Sends a message to a server that lives in another program, and returns its answer. Raises FairleadError if there is none.
Exchange: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]


class McpStyle(Struct, frozen=True, kw_only=True):
    """How the tools of servers look in a family of tools."""

    #: The characters that names of tools cannot have. None: all but letters, digits and `_`.
    illegal: re.Pattern[str] | None = None
    #: The key under which a call tells the server the id of the model's call.
    call_id_key: str | None = None
    #: Seconds that a call may take if the server's configuration does not say so. None: the limit for all tools.
    timeout: float | None = None
    #: Takes an answer and what the model would see of it. Returns what the model sees, and the details.
    shape: Callable[[CallToolResult, Sequence[UserBlock]], tuple[list[UserBlock], Any]] | None = None


class ServerConfig(Struct, frozen=True, kw_only=True):
    """A server: a program to start with its arguments, the URL of a running server, or one that lives in another program."""

    name: str
    origin: Origin
    command: tuple[str, ...] = ()
    url: str = ""
    exchange: Exchange | None = None
    #: Variables to add to our environment, and the program's working directory if it is not ours.
    env: Mapping[str, str] = {}
    cwd: str | None = None
    headers: Mapping[str, str] = {}
    oauth: OAuthSettings = OAuthSettings()
    #: Whether the server at the URL uses HTTP with server-sent events, which streamable HTTP has replaced.
    is_sse: bool = False
    #: Seconds that a call may take. None uses the limit for all tools.
    timeout: float | None = None
    #: How tools reach the model, by name or pattern (`*` stands for any text), the first that matches: see `EXPOSURES`.
    exposures: Mapping[str, str] = {}

    @property
    def may_sign_in(self) -> bool:
        """Whether OAuth can authenticate requests to the server: it is at a URL, and no header does that already."""
        return bool(self.url) and not any(name.lower() == "authorization" for name in self.headers)

    def exposure(self, tool: str) -> str:
        """Return how a tool of the server reaches the model."""
        if tool in self.exposures:
            return self.exposures[tool]
        matching = (
            self.exposures[each] for each in self.exposures if "*" in each and fnmatch.fnmatchcase(tool, each.replace("[", "[[]"))
        )
        return next(matching, "direct")


class _ServerEntry(Struct):
    """A server as written in the file."""

    type: str | None = None
    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    oauth: OAuthSettings = OAuthSettings()
    enabled: bool = True
    #: In milliseconds, as in other programs that read such files.
    timeout: float | None = None
    exposure: Any = None
    tool_exposure: Any = msgspec.field(name="toolExposure", default=None)


def load_servers(config_files: Iterable[McpConfigFile], env: Mapping[str, str], problems: list[str]) -> list[ServerConfig]:
    """Read these files and return their servers, sorted by name. Variables in values are replaced from `env`.

    If a file of the user cannot be read, the servers of projects are left out too, because the file may disable them.
    """
    written: dict[str, tuple[Any, McpConfigFile]] = {}
    disabled: set[str] = set()
    unread = False
    for file in config_files:
        try:
            entries, names = _read(file)
        except ConfigError as error:
            unread = unread or file.within is None
            others = "" if file.within is not None else " So are those of projects, because this file may disable them."
            problems.append(f"{error} Its MCP servers are left out.{others}")
        else:
            written |= {name: (entry, file) for name, entry in entries.items()}
            disabled |= names
    servers: list[ServerConfig] = []
    for name, (entry, file) in sorted(written.items()):
        if name in disabled or (unread and file.within is not None):
            continue
        try:
            server = read_server(name, entry, file.origin, env)
        except ConfigError as error:
            problems.append(f'{file.origin.path}: the MCP server "{name}" is left out: {error}')
        else:
            servers += [server] if server is not None else []
    return servers


def _read(file: McpConfigFile) -> tuple[dict[str, Any], set[str]]:
    """Return the servers in a file, unchecked, and the names of those it disables."""
    path = file.origin.path
    data = project_files.read_if_present(path, within=file.within, largest=project_files.LARGEST_PROJECT_FILE)
    if data is None:
        if file.named is not None:
            raise ConfigError(f"{file.named}: {path}: there is no such file.")
        return {}, set()
    content = json_files.parse_object(path, data)
    servers = content.get("mcpServers")
    disabled = content.get("disabledServers")
    if not isinstance(servers, dict | None):
        raise ConfigError(
            f"{path}: mcpServers: expected an object of servers by name, found {json_files.describe_value(servers)}."
        )
    if not isinstance(disabled, list | None):
        raise ConfigError(f"{path}: disabledServers: expected a list of names, found {json_files.describe_value(disabled)}.")
    names = cast("list[Any]", disabled or [])
    return cast("dict[str, Any]", servers or {}), {name for name in names if isinstance(name, str)}


def read_server(name: str, written: Any, origin: Origin, env: Mapping[str, str]) -> ServerConfig | None:
    """Check one server. Returns None if it is disabled. Raises ConfigError, which says what is wrong with it."""
    if not name:
        raise ConfigError("its name is empty. The names of its tools begin with it.")
    if not isinstance(written, dict):
        raise ConfigError(f"expected an object, found {json_files.describe_value(written)}.")
    values = {key: value for key, value in cast("dict[str, Any]", written).items() if value is not None}
    if values.get("enabled") is False:
        return None
    try:
        entry = msgspec.convert(expand_variables(values, env), _ServerEntry)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{error}.") from None
    kind = entry.type or ("http" if entry.url and not entry.command else "stdio")
    if entry.timeout is not None and not (entry.timeout > 0 and math.isfinite(entry.timeout)):
        raise ConfigError(f"timeout: expected milliseconds above 0, found {entry.timeout:g}.")
    common: dict[str, Any] = {"name": name, "origin": origin, "timeout": entry.timeout and entry.timeout / 1000}
    common["exposures"] = exposures(entry.exposure, entry.tool_exposure)
    match kind:
        case "stdio":
            if not entry.command:
                raise ConfigError("command: expected the program to start. For a running server, set url instead.")
            return ServerConfig(command=(entry.command, *entry.args), env=entry.env, cwd=entry.cwd, **common)
        case "http" | "sse":
            if not entry.url or not entry.url.lower().startswith(("http://", "https://")):
                raise ConfigError(
                    f"url: expected a URL that begins with http:// or https://, found {json_files.describe_value(entry.url)}."
                )
            entry.oauth.check()
            return ServerConfig(url=entry.url, headers=entry.headers, oauth=entry.oauth, is_sse=kind == "sse", **common)
        case _:
            raise ConfigError(
                f'type: expected "stdio", "http" (streamable HTTP) or "sse", found {json_files.describe_value(kind)}.'
            )


def exposures(server: Any, tools: Any) -> dict[str, str]:
    """Return how the tools of a server reach the model, by name or pattern. Raises ConfigError."""
    allowed = ", ".join(f'"{each}"' for each in EXPOSURES)
    if server is not None and server not in _ALL_EXPOSURES:
        raise ConfigError(f"exposure must be one of {allowed}")
    if not isinstance(tools, dict | None):
        raise ConfigError("toolExposure must map tool names to exposures")
    found = cast("dict[str, Any]", tools or {})
    for tool, exposure in found.items():
        if exposure not in _ALL_EXPOSURES:
            raise ConfigError(f'toolExposure "{tool}" must be one of {allowed}')
    return {**found, **({} if server is None else {"*": server})}


class SignIns:
    """The stored sign-ins of a home.

    Args:
        path: the file. None: nothing is stored, because the agent is isolated from the user's files.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @property
    def stamp(self) -> tuple[int, int] | None:
        """Something that changes whenever the file does; None if there is none."""
        try:
            status = self._path.stat() if self._path is not None else None
        except OSError:
            return None
        return None if status is None else (status.st_mtime_ns, status.st_ino)

    def of(self, server: ServerConfig) -> dict[str, Any] | None:
        """Return the sign-in at a server; None if there is none. Raises ConfigError if the file cannot be read."""
        fields = self._all().get(_key(server))
        if fields is None:
            return None
        for part in ("tokens", "client"):
            values = cast("dict[str, Any]", found) if isinstance(found := fields.get(part), dict) else {}
            secrets = (values.get(name) for name in ("access_token", "refresh_token", "client_secret"))
            learn(*(secret for secret in secrets if isinstance(secret, str)))
        return fields

    def store(self, server: ServerConfig, **fields: Any) -> None:
        """Add fields to the sign-in at a server. Raises ConfigError if they cannot be stored."""
        if self._path is None:
            raise ConfigError("Sign-ins are not stored in an isolated run.")

        def change(content: dict[str, Any]) -> None:
            content[_key(server)] = {**(content.get(_key(server)) or {}), "name": server.name, "url": server.url, **fields}

        json_files.update_object(self._path, change)

    def forget(self, name: str) -> list[str]:
        """Remove the sign-ins at servers with this name. Returns their URLs. Raises ConfigError if that fails."""
        found = {key: entry for key, entry in self._all().items() if entry.get("name") == name}

        def change(content: dict[str, Any]) -> None:
            for key in found:
                content.pop(key, None)

        if found and self._path is not None:
            json_files.update_object(self._path, change)
        return [str(entry.get("url")) for entry in found.values()]

    def _all(self) -> dict[str, dict[str, Any]]:
        data = None if self._path is None else project_files.read_bytes(self._path)
        content = {} if data is None or self._path is None else json_files.parse_object(self._path, data)
        return {key: cast("dict[str, Any]", entry) for key, entry in content.items() if isinstance(entry, dict)}


def _key(server: ServerConfig) -> str:
    return f"{server.name} {server.url}"
