"""Session files of older versions, brought to version 3.

    1   a list: entries have no ids, and a compaction counts lines to say what it keeps
    2   a tree, as in version 3, where extensions' messages have the role `hookMessage`

Only what must change does: lines that cannot be read, and fields that are unknown here, stay as they are. So the old
file has nothing that the new one lacks, and no copy of it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from fairlead.core import lenient
from fairlead.session.history.entries import VERSION


def migrate(lines: Sequence[bytes], version: int) -> list[bytes]:
    """The lines of a file of version 1 or 2, its header among them, as version 3 has them.

    The same lines always give the same ids, so that two readers of an old file agree.
    """
    values = [_object(line) for line in lines]
    if version < 2:
        _link([value for value in values if value is not None])
    for value in values:
        if value is None:
            continue
        if value.get("type") == "session":
            value["version"] = VERSION
        message = value.get("message")
        if isinstance(message, dict) and cast("dict[str, Any]", message).get("role") == "hookMessage":
            message["role"] = "custom"
    return [line if value is None else msgspec.json.encode(value) for line, value in zip(lines, values, strict=True)]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = lenient.decode(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _link(values: list[dict[str, Any]]) -> None:
    """Make a tree without branches of a list. A compaction's count includes the header."""
    parent: str | None = None
    for number, value in enumerate(values):
        if value.get("type") != "session":
            value["id"] = f"{number:08x}"
            value["parentId"] = parent
            parent = value["id"]
    for value in values:
        kept = value.pop("firstKeptEntryIndex", None) if value.get("type") == "compaction" else None
        if isinstance(kept, int) and 0 <= kept < len(values) and values[kept].get("type") != "session":
            value["firstKeptEntryId"] = values[kept]["id"]
