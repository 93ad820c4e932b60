"""Reads a session file, also a damaged one, and writes its page."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.errors import ConfigError, SessionError
from fairlead.export.page import render
from fairlead.session.history.locking import remove_leftovers_in, temporary
from fairlead.session.history.reading import HEADER_LIMIT, decode_object, header_in, refuse_endless, without_title


@dataclass(frozen=True, slots=True)
class SessionObjects:
    """The header and the entries of a session file as JSON objects, and the number of its unreadable lines."""

    header: Mapping[str, Any]
    entries: Sequence[Mapping[str, Any]]
    unreadable: int


def export_file(source: Path, target: Path | None = None) -> Path:
    """Write the page of the session file `source` and return the path of the page.

    Without a target the page is `fairlead-session-<name of the file>.html` in the working directory. An existing page is
    replaced atomically. Raises ConfigError if `source` is not a session file, if the page cannot be written, or if the target is
    a session or another file that is not a page.
    """
    target = target or Path(f"fairlead-session-{source.stem}.html")
    check_target(target)
    _write(_read(source), None, target)
    return target


def export_lines(lines: Sequence[bytes], leaf: str | None, target: Path) -> None:
    """Write the page of an open session.

    Takes the header and the entries as lines of JSON, the id of the current entry, and the path of the page. Raises ConfigError
    if the page cannot be written, or if the target is a session or another file that is not a page.
    """
    check_target(target)
    _write(_parse(lines), leaf, target)


def check_target(target: Path) -> None:
    """Raise ConfigError if a page must not be written there: it would replace a session, or a file that is not a page."""
    if target.suffix.lower() == ".jsonl" or Path(os.path.realpath(target)).suffix.lower() == ".jsonl":
        raise ConfigError(f"Cannot write the page {target}: files with names in .jsonl are for sessions. Choose another name.")
    try:
        if not target.is_file():
            return  # it does not exist, or writing it reports what is wrong
        with target.open("rb") as file:
            beginning = file.read(HEADER_LIMIT)
    except OSError as error:
        raise ConfigError(f"Cannot write the page {target}: {error.strerror or error}.") from error
    if header_in(beginning) is not None or beginning.startswith(b'{"type":"session"'):  # also a torn header
        raise ConfigError(f"Cannot write the page {target}: it would replace a session. Choose another name.")
    looks_like_page = target.suffix.lower() in (".html", ".htm") or beginning[:64].lstrip().lower().startswith(b"<!doctype html")
    if beginning and not looks_like_page:
        raise ConfigError(
            f"Cannot write the page {target}: it would replace a file that is not a page. Delete it, or choose another name."
        )


def _write(session: SessionObjects, leaf: str | None, target: Path) -> None:
    page = render(session.header, session.entries, leaf, unreadable=session.unreadable)
    try:
        _replace(target, page)
    except OSError as error:
        raise ConfigError(f"Cannot write the page {target}: {error.strerror or error}.") from error


def _read(source: Path) -> SessionObjects:
    """Read everything that is readable in a session file. Raises ConfigError if it has no header or cannot be read."""
    try:
        refuse_endless(source, whole=True)
        lines = without_title(source.read_bytes().split(b"\n"))
    except SessionError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(f"Cannot read the session {source}: {error.strerror or error}.") from error
    header = decode_object(lines[0])
    if header is None or header.get("type") != "session":
        raise ConfigError(f"{source} is not a session file: it does not begin with a session header.")
    return _parse(lines)


def _parse(lines: Sequence[bytes]) -> SessionObjects:
    entries: list[Mapping[str, Any]] = []
    unreadable = 0
    for line in lines[1:]:
        if not line.strip():
            continue
        entry = decode_object(line)
        if entry is None:
            unreadable += 1
        else:
            entries.append(entry)
    return SessionObjects(decode_object(lines[0]) or {}, entries, unreadable)


def _replace(target: Path, page: bytes) -> None:
    """Write beside the target and rename, so that no reader sees a partial page and a failure keeps the old one.

    A symbolic link stays a link. Only the owner can read the page, like the session. Raises OSError.
    """
    real = Path(os.path.realpath(target))
    if real.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if real.exists() and not real.is_file():
        raise OSError(errno.EEXIST, "Something that is not a file has this name")
    remove_leftovers_in(real.parent)
    handle, unfinished = temporary(real.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
            file.flush()
            check_target(target)  # again, because rendering takes a while
            unfinished.replace(real)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
