"""Reading a session file, whatever became of it, and writing its page."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fairlead.config.files import is_of_kernel
from fairlead.core import lenient
from fairlead.errors import ConfigError
from fairlead.export.page import render
from fairlead.session.history.locking import remove_leftovers_in, temporary
from fairlead.session.history.reading import LARGEST

#: How much of a file tells what it is.
_BEGINNING = 1 << 16


@dataclass(frozen=True, slots=True)
class SessionFile:
    """The header and the entries of a file, and how many of its lines were not readable."""

    header: Mapping[str, Any]
    entries: list[Mapping[str, Any]]
    unreadable: int


def export_file(source: Path, target: Path | None = None) -> Path:
    """Write the page of a session file; the path of the page.

    Without a target the page is `fairlead-session-<name of the file>.html` in the working directory. A page that is
    already there is replaced, all at once. Raises ConfigError if the file is not a session, the page cannot be written, or there
    is a session, or anything else that is not a page, in its place.
    """
    target = target or Path(f"fairlead-session-{source.stem}.html")
    check_target(target)
    _write(read_session(source), None, target)
    return target


def export_lines(lines: Sequence[bytes], leaf: str | None, target: Path) -> None:
    """Write the page of a session that is open: its header and entries as JSON, and where the conversation stands."""
    check_target(target)
    _write(_parse(lines), leaf, target)


def check_target(target: Path) -> None:
    """Raise ConfigError if a page must not be written there: it would replace a session, or a file that is not a page."""
    if target.suffix.lower() == ".jsonl" or Path(os.path.realpath(target)).suffix.lower() == ".jsonl":
        raise ConfigError(f"Cannot write the page {target}: files with names in .jsonl are for sessions. Choose another name.")
    try:
        if not target.is_file():
            return  # there is none, or writing it says what is wrong
        with target.open("rb") as file:
            beginning = file.read(_BEGINNING)
    except OSError as error:
        raise ConfigError(f"Cannot write the page {target}: {error.strerror or error}.") from error
    if _is_session(beginning):
        raise ConfigError(f"Cannot write the page {target}: it would replace a session. Choose another name.")
    looks_like_page = target.suffix.lower() in (".html", ".htm") or beginning[:64].lstrip().lower().startswith(b"<!doctype html")
    if beginning and not looks_like_page:
        raise ConfigError(
            f"Cannot write the page {target}: it would replace a file that is not a page. Delete it, or choose another name."
        )


def _is_session(beginning: bytes) -> bool:
    lines = beginning.split(b"\n", 2)
    if lines[0].startswith(b'{"type":"title"'):  # omp has one before the header
        del lines[0]
    header = _object(lines[0]) if lines else None
    return (header is not None and header.get("type") == "session") or beginning.startswith(b'{"type":"session"')


def _write(session: SessionFile, leaf: str | None, target: Path) -> None:
    page = render(session.header, session.entries, leaf, unreadable=session.unreadable)
    try:
        _replace(target, page)
    except OSError as error:
        raise ConfigError(f"Cannot write the page {target}: {error.strerror or error}.") from error


def read_session(source: Path) -> SessionFile:
    """All that can be read of a session file. A line that is torn or no entry is counted and passed over."""
    try:
        if source.exists() and (not source.is_file() or is_of_kernel(source.stat())):
            raise OSError(errno.EINVAL, "It is not a file on a disk")
        if source.exists() and source.stat().st_size > LARGEST:
            raise OSError(errno.EFBIG, f"It has more than {LARGEST >> 30} GiB")
        lines = source.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"Cannot read the session {source}: {error.strerror or error}.") from error
    if lines[0].startswith(b'{"type":"title"'):  # omp has one before the header
        del lines[0]
    header = _object(lines[0])
    if header is None or header.get("type") != "session":
        raise ConfigError(f"{source} is not a session: its first line is no session header.")
    return _parse(lines)


def _parse(lines: Sequence[bytes]) -> SessionFile:
    entries: list[Mapping[str, Any]] = []
    unreadable = 0
    for line in lines[1:]:
        if not line.strip():
            continue
        entry = _object(line)
        if entry is None:
            unreadable += 1
        else:
            entries.append(entry)
    return SessionFile(_object(lines[0]) or {}, entries, unreadable)


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        value = lenient.decode(line)
    except ValueError:
        return None
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else None


def _replace(target: Path, page: bytes) -> None:
    """Write beside the target and rename, so that no reader sees half a page and a failure leaves the old one.

    A link stays a link. The page is for its owner alone, as the session is.
    """
    place = Path(os.path.realpath(target))
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if place.exists() and not place.is_file():
        raise OSError(errno.EEXIST, "There is something that is not a file")
    remove_leftovers_in(place.parent)
    handle, half_done = temporary(place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
            file.flush()
            check_target(target)  # once more: rendering takes a while
            half_done.replace(place)
    except BaseException:
        with suppress(OSError):
            half_done.unlink()
        raise
