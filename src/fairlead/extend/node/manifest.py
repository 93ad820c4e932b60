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


def script_files_inside(path: Path) -> list[Path]:
    """Return the same for a path inside a folder of extensions: an index counts if nothing exists that the manifest names."""
    return script_files(path) or _index_of(path)


def declared_extensions(path: Path) -> list[str] | None:
    """Return what the manifest of a package says about its extensions; None if there is no manifest, or it says nothing."""
    manifest = read_manifest(path)
    return None if manifest is None else manifest.get("extensions")


def missing_extensions(path: Path) -> str | None:
    """Return the error for a package whose manifest names extensions of which none exists; None for other folders."""
    declared = declared_extensions(path)
    if not declared or script_files(path):
        return None
    return f"The package {path} has no extension that its manifest names: {', '.join(declared)}."


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
    return [file for name in names if not name.startswith((".", "_")) for file in script_files_inside(folder / name)]


def _index_of(folder: Path) -> list[Path]:
    return [folder / name for name in _INDEX_FILES if os.path.isfile(folder / name)][:1]


def script_name(place: Path, file: Path) -> str:
    """Return the name of the extension in a file that was found at `place`."""
    if place == file:
        return file.stem
    return place.name if file.stem == "index" and file.parent == place else f"{place.name}/{file.stem}"
