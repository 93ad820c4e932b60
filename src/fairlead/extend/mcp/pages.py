"""Lists of MCP servers, which come in pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

Page = TypeVar("Page", bound="Paged")
Item = TypeVar("Item")

#: Pages of a list that no server has reason to exceed.
_MOST = 1000


class Paged(Protocol):
    next_cursor: str | None


async def all_pages(fetch: Callable[..., Awaitable[Page]], items: Callable[[Page], list[Item]]) -> list[Item]:
    """All of a list. It ends early if the server leads in a circle."""
    from mcp import types

    page = await fetch()
    found = items(page)
    seen: set[str] = set()
    while page.next_cursor is not None and page.next_cursor not in seen and len(seen) < _MOST:
        seen.add(page.next_cursor)
        page = await fetch(params=types.PaginatedRequestParams(cursor=page.next_cursor))
        found = found + items(page)
    return found
