"""Recognises extensions written for pi: files, folders with an index file, and packages with a manifest."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.config.packages import manifest_paths, read_manifest
from fairlead.extend import SCRIPT_SUFFIXES

#: The names of files that make a folder an extension.
_INDEX_FILES = ("index.ts", "index.js", "index.mts", "index.mjs")


def script_files(path: Path) -> list[Path]:
    """Return the files of the extensions at a path: one for a file or a folder with an index, any number for a package.

    Returns none if pi would not load anything from there.
    """
    if path.suffix in SCRIPT_SUFFIXES and os.path.isfile(path):
        return [] if path.name.endswith((".d.ts", ".d.mts", ".d.cts")) else [path]
    manifest = read_manifest(path)
    if manifest is not None and "extensions" in manifest:
        return [file for named in manifest_paths(path, manifest["extensions"]) for file in _in_place(named)]
    return _index_of(path)


def brings_none(path: Path) -> bool:
    """Whether the folder is a package whose manifest says that it brings no extensions."""
    manifest = read_manifest(path)
    return manifest is not None and manifest.get("extensions") == []


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
    return [folder / name for name in _INDEX_FILES if os.path.isfile(folder / name)][:1]


def script_name(place: Path, file: Path) -> str:
    """Return the name of the extension in a file that was found at `place`."""
    if place == file:
        return file.stem
    return place.name if file.stem == "index" and file.parent == place else f"{place.name}/{file.stem}"
