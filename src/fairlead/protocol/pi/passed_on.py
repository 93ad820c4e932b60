"""What is in fields that nobody reads as a whole: they are declared as JSON, and checked piece by piece or passed on."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType


class GivenTask(Struct):
    """A task as a host gives it. An id that is missing or was given before is exchanged for a new one."""

    content: str
    id: str | None = None
    status: Literal["pending", "in_progress", "completed", "abandoned"] | None = None
    notes: str | None = None
    details: str | None = None


class GivenPhase(Struct):
    """Tasks that belong together, as a host gives them."""

    name: str
    tasks: list[GivenTask]
    id: str | None = None


class TreeNode(Struct, rename="camel"):
    """An entry, with those that came after it, oldest first."""

    entry: dict[str, Any]
    children: list[TreeNode]
    label: str | UnsetType = UNSET
    label_timestamp: str | UnsetType = UNSET
