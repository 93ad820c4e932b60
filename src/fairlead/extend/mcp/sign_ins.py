"""Stores what OAuth has granted for MCP servers, so that a server needs one sign-in and not one in each session.

The file is mcp-sign-ins.json in the home. Only its owner can read it. A sign-in belongs to the name and the URL of a server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from fairlead.config import files, json_files
from fairlead.core.secrets import learn
from fairlead.errors import ConfigError
from fairlead.extend.mcp.config import ServerConfig


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
        data = None if self._path is None else files.read_bytes(self._path)
        content = {} if data is None or self._path is None else json_files.parse_object(self._path, data)
        return {key: cast("dict[str, Any]", entry) for key, entry in content.items() if isinstance(entry, dict)}


def _key(server: ServerConfig) -> str:
    return f"{server.name} {server.url}"
