"""Reads Markdown files with front matter: skills and prompt templates."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fairlead.config.files import Budget, Check
from fairlead.errors import ConfigError
from fairlead.session.front_matter import FrontMatterError, pick


def read_markdown(
    path: Path,
    keys: Collection[str],
    check: Check | None = None,
    *,
    within: Path | None = None,
    budget: Budget | None = None,
) -> tuple[dict[str, str], str]:
    """Return the values of some front-matter keys, and the text after the front matter. Raises ConfigError."""
    data = (budget or Budget()).read(path, check, within=within)
    if data is None:
        raise ConfigError(f"{path}: there is no such file.")
    try:
        return pick(data.decode("utf-8", "replace"), keys)
    except FrontMatterError as error:
        raise ConfigError(f"{path}: {error}") from None


def budget_for(within: Path | None, shared: Budget) -> Budget:
    """Return the limit for reading a search path. All paths of the project share one, so that the user's paths have their own."""
    return Budget() if within is None else shared
