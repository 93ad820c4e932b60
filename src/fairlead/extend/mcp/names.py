"""Names for what MCP servers bring, such as every provider takes: letters, digits, `_` and `-`, 64 characters at most.

They are the same in every run, whatever connects first: a name never depends on which others were there before it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

LONGEST = 64
_PREFIX = "mcp__"
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]+")
_UNDERSCORES = re.compile(r"_{2,}")
#: Hexadecimal digits that tell two names apart which would otherwise be the same.
_MARK = 8


def server_keys(names: Iterable[str]) -> dict[str, str]:
    """A key for each server's name. It has no `__`, so that a tool's name shows where that of its server ends."""
    plain = {name: _UNDERSCORES.sub("_", _ILLEGAL.sub("_", name)).strip("_") or "server" for name in names}
    return _told_apart(plain, "")


def tool_names(key: str, names: Iterable[str]) -> dict[str, str]:
    """The name that the model knows each tool of a server by: `mcp__<server>__<tool>`."""
    prefix = f"{_PREFIX}{key}__"
    return _told_apart({name: prefix + _ILLEGAL.sub("_", name) for name in names}, prefix)


def _told_apart(plain: dict[str, str], prefix: str) -> dict[str, str]:
    """The plain names; one that is too long, or that several would have, is marked. Who has it by right keeps it."""
    shared = {name for name, count in Counter(plain.values()).items() if count > 1}
    return {
        original: name if len(name) <= LONGEST and (name not in shared or name == prefix + original) else _marked(name, original)
        for original, name in plain.items()
    }


def _marked(name: str, original: str) -> str:
    digest = hashlib.sha256(f"{name}\0{original}".encode("utf-8", "replace")).hexdigest()
    return f"{name[: LONGEST - _MARK - 1]}_{digest[:_MARK]}"
