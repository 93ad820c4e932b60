"""Recognises extensions written for pi: files, folders with an index file, and packages with a manifest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import DecodeError, json

from fairlead.config.files import read_bytes
from fairlead.errors import ConfigError

#: The names of files that pi, omp and xcsh load as extensions, and of those that make a folder such an extension.
SCRIPT_SUFFIXES = frozenset((".js", ".ts", ".mjs", ".mts", ".cjs", ".cts", ".jsx", ".tsx"))
_INDEX_FILES = ("index.ts", "index.js", "index.mts", "index.mjs")
#: The keys of a `package.json` that hold a manifest.
_MANIFEST_KEYS = ("pi", "omp", "xcsh")


def script_files(path: Path) -> list[Path]:
    """Return the files of the extensions at a path: one for a file or a folder with an index, any number for a package.

    Returns none if pi would not load anything from there.
    """
    if path.suffix in SCRIPT_SUFFIXES and os.path.isfile(path):  # noqa: PTH113
        return [] if path.name.endswith((".d.ts", ".d.mts", ".d.cts")) else [path]
    manifest = read_manifest(path)
    if manifest is not None and "extensions" in manifest:
        return [file for named in manifest_paths(path, manifest["extensions"]) for file in _in_place(named)]
    return _index_of(path)


def _in_place(path: Path) -> list[Path]:
    """Return the extensions at a place that a manifest names: a file, a folder with an index, or a folder of files."""
    if path.suffix in SCRIPT_SUFFIXES:
        return [path]
    return _index_of(path) or folder_scripts(path)


def folder_scripts(folder: Path) -> list[Path]:
    """Return the extensions in a folder, in the order of their names: files, and folders with an index or a manifest."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []
    return [file for name in names if not name.startswith((".", "_")) for file in script_files(folder / name)]


def _index_of(folder: Path) -> list[Path]:
    return [folder / name for name in _INDEX_FILES if os.path.isfile(folder / name)][:1]  # noqa: PTH113


def script_name(place: Path, file: Path) -> str:
    """Return the name of the extension in a file that was found at `place`."""
    if place == file:
        return file.stem
    return place.name if file.stem == "index" and file.parent == place else f"{place.name}/{file.stem}"


def read_manifest(folder: Path) -> dict[str, list[str]] | None:
    """Return the lists of paths in the manifest of a package; None if the folder has no manifest."""
    try:
        package = json.decode(read_bytes(folder / "package.json") or b"{}")
    except (ConfigError, DecodeError, UnicodeDecodeError):
        return None
    fields = cast("dict[str, Any]", package) if isinstance(package, dict) else {}
    found = next((fields[key] for key in _MANIFEST_KEYS if isinstance(fields.get(key), dict)), None)
    if found is None:
        return None
    lists = cast("dict[str, Any]", found)
    return {key: [str(each) for each in cast("list[Any]", value)] for key, value in lists.items() if isinstance(value, list)}


def manifest_paths(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the paths in a package that patterns name, without those that patterns with `!` exclude."""
    named = [
        path for pattern in patterns if not pattern.startswith(("!", "-")) for path in _matching(folder, pattern.lstrip("+"))
    ]
    excluded = {path for pattern in patterns if pattern.startswith(("!", "-")) for path in _matching(folder, pattern[1:])}
    return [path for path in dict.fromkeys(named) if path not in excluded]


def _matching(folder: Path, pattern: str) -> list[Path]:
    plain = os.path.normpath(pattern)
    if any(char in plain for char in "*?["):
        return sorted(folder.glob(plain))
    return [folder / plain] if os.path.lexists(folder / plain) else []
