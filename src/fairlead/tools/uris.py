"""Documents that are not files. A provider, such as the host or an MCP server, reads and writes them by URI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from fairlead.core.messages import ImageContent, TextContent, UserBlock
from fairlead.core.runtime import Cancel


class Document(Struct):
    """What is at a URI. The model sees `text`, then `images` and `notes`; `details` go to the host with the tool's result."""

    text: str
    notes: list[str]
    details: dict[str, Any]
    images: list[ImageContent] = []


class Uris(Protocol):
    """Reads and writes documents by the URIs of some schemes. A failure raises ToolError, also if `cancel` fired."""

    def has(self, path: str) -> bool:
        """Return whether `path` is such a URI, and no file."""
        ...

    async def read(self, uri: str, cancel: Cancel) -> Document: ...

    async def write(self, uri: str, content: str, cancel: Cancel) -> list[str]:
        """Replace all of what is at `uri`. Returns notes for the model."""
        ...


def beside(first: Uris, other: Uris | None) -> Uris:
    """Combine two providers of documents. `first` wins where both know a scheme."""
    return first if other is None else _Both(first, other)


class _Both(Struct, frozen=True):
    first: Uris
    other: Uris

    def has(self, path: str) -> bool:
        return self.first.has(path) or self.other.has(path)

    async def read(self, uri: str, cancel: Cancel) -> Document:
        return await self._who(uri).read(uri, cancel)

    async def write(self, uri: str, content: str, cancel: Cancel) -> list[str]:
        return await self._who(uri).write(uri, content, cancel)

    def _who(self, uri: str) -> Uris:
        return self.first if self.first.has(uri) else self.other


def as_content(notes: Sequence[str]) -> list[UserBlock]:
    """Notes, as the model sees them."""
    return [TextContent("\n".join(f"[{note}]" for note in notes))] if notes else []


def scheme_of(path: str) -> str:
    """Return what stands before `://`, in lower case; empty for a path that has none."""
    scheme, separator, _ = path.partition("://")
    plain = scheme.replace("+", "").replace("-", "").replace(".", "")
    return scheme.lower() if separator and scheme[:1].isalpha() and plain.isalnum() and plain.isascii() else ""
