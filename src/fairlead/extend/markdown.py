"""Markdown files with front matter, as skills and templates are."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.config.files import Check


def read_markdown(path: Path, keys: Collection[str], check: Check | None = None) -> tuple[dict[str, str], str]:
    """The texts of some keys of the front matter, and what comes after it. Raises ConfigError."""
    from fairlead.config.files import read_bytes
    from fairlead.session.front_matter import FrontMatterError, pick

    data = read_bytes(path, check)
    if data is None:
        raise ConfigError(f"{path}: there is no such file.")
    try:
        return pick(data.decode("utf-8", "replace"), keys)
    except FrontMatterError as error:
        raise ConfigError(f"{path}: {error}") from None


def unreadable(path: Path, error: OSError) -> str:
    return f"{path}: cannot be read: {error.strerror or error}."
