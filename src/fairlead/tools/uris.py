"""Documents that are not files: somebody outside, such as the program that embeds the agent, answers for their URIs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from fairlead.core.messages import TextContent, UserBlock
from fairlead.core.runtime import Cancel


class Document(Struct):
    """What is at a URI. The model sees `text`, then `notes`; `details` go to the host with the tool's result."""

    text: str
    notes: list[str]
    details: dict[str, Any]


class Uris(Protocol):
    """Whoever answers for the URIs of some schemes. What fails raises ToolError, also because `cancel` fired."""

    def has(self, path: str) -> bool:
        """Whether `path` is such a URI, and no file."""
        ...

    async def read(self, uri: str, cancel: Cancel) -> Document: ...

    async def write(self, uri: str, content: str, cancel: Cancel) -> list[str]:
        """Replace all of what is at `uri`. Returns notes for the model."""
        ...


def as_content(notes: Sequence[str]) -> list[UserBlock]:
    """Notes, as the model sees them."""
    return [TextContent("\n".join(f"[{note}]" for note in notes))] if notes else []


def scheme_of(path: str) -> str:
    """What stands before `://`, in lower case; empty for a path that has none."""
    scheme, separator, _ = path.partition("://")
    plain = scheme.replace("+", "").replace("-", "").replace(".", "")
    return scheme.lower() if separator and scheme[:1].isalpha() and plain.isalnum() and plain.isascii() else ""
