"""Session files and the pages made from them: what is read, and what may be overwritten."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.errors import ConfigError, SessionError
from fairlead.export.page import GENERATOR, render
from fairlead.stores.deleting import remove_leftovers_in
from fairlead.stores.headers import HEADER_LIMIT, decode_object, header_in, refuse_endless, without_title
from fairlead.stores.session_files import temporary


@dataclass(frozen=True, slots=True)
class SessionObjects:
    """A session file: its header and entries as JSON objects, and the number of its unreadable lines."""

    header: Mapping[str, Any]
    entries: Sequence[Mapping[str, Any]]
    unreadable: int
    #: The file.
    source: bytes


def export_file(source: Path, target: Path | None = None, *, force: bool = False) -> Path:
    """Write the page of a session file.

    Args:
        source: The session file. It is only read, and may be in use.
        target: The page; by default `fairlead-session-<name of the file>.html` in the working directory.
        force: Whether to replace a file that no export made. A session is never replaced.

    Returns:
        The path of the page. A page that an export made before is replaced atomically.

    Raises:
        ConfigError: `source` is not a session file, or the page cannot be written there.
    """
    target = target or default_target(source)
    check_target(target, force=force)
    session = _read(source)
    write_page(target, _page(session, None), force=force)
    return target


def render_file(source: Path) -> bytes:
    """Return the page of a session file as UTF-8. Raises ConfigError if `source` is not a session file."""
    return _page(_read(source), None)


def default_target(source: Path) -> Path:
    """Return the name of the page of a session file, in the working directory."""
    return Path(f"fairlead-session-{source.stem}.html")


def export_lines(lines: Sequence[bytes], leaf: str | None, target: Path) -> None:
    """Write the page of an open session.

    Takes the header and the entries as lines of JSON, the id of the current entry, and the path of the page. Raises ConfigError
    if the page cannot be written, or if the target is a session or another file that no export made.
    """
    check_target(target)
    write_page(target, _page(_parse(lines, b"\n".join((*lines, b""))), leaf))


def check_target(target: Path, *, force: bool = False) -> None:
    """Raise ConfigError if a page must not be written there: it would replace a session, or a file that no export made.

    With `force`, only sessions are protected.
    """
    if target.suffix.lower() == ".jsonl" or Path(os.path.realpath(target)).suffix.lower() == ".jsonl":
        raise ConfigError(f"Cannot write the page {target}: files with names in .jsonl are for sessions. Choose another name.")
    try:
        if not os.path.isfile(target):
            return  # it does not exist, or writing it reports what is wrong
        with target.open("rb") as file:
            beginning = file.read(HEADER_LIMIT)
    except OSError as error:
        raise ConfigError(f"Cannot write the page {target}: {error.strerror or error}.") from error
    if header_in(beginning) is not None or beginning.startswith(b'{"type":"session"'):  # also a torn header
        raise ConfigError(f"Cannot write the page {target}: it would replace a session. Choose another name.")
    if beginning and GENERATOR not in beginning and not force:
        raise ConfigError(
            f"Cannot write the page {target}: it would replace a file that fairlead did not make. Delete it, or choose another "
            "name; --force on the command line replaces it."
        )


def write_page(target: Path, page: bytes, *, force: bool = False) -> None:
    """Write a page, or replace one, after `check_target`. Raises ConfigError if that is not possible."""
    try:
        _replace(target, page, force)
    except OSError as error:
        raise ConfigError(f"Cannot write the page {target}: {error.strerror or error}.") from error


def _page(session: SessionObjects, leaf: str | None) -> bytes:
    return render(session.header, session.entries, leaf, unreadable=session.unreadable, source=session.source)


def _read(source: Path) -> SessionObjects:
    """Read everything that is readable in a session file. Raises ConfigError if it has no header or cannot be read."""
    try:
        refuse_endless(source, whole=True)
        data = source.read_bytes()
        lines = without_title(data.split(b"\n"))
    except SessionError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(f"Cannot read the session {source}: {error.strerror or error}.") from error
    header = decode_object(lines[0])
    if header is None or header.get("type") != "session":
        raise ConfigError(f"{source} is not a session file: it does not begin with a session header.")
    return _parse(lines, data)


def _parse(lines: Sequence[bytes], source: bytes) -> SessionObjects:
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
    return SessionObjects(decode_object(lines[0]) or {}, entries, unreadable, source)


def _replace(target: Path, page: bytes, force: bool) -> None:
    """Write beside the target and rename, so that no reader sees a partial page and a failure keeps the old one.

    A symbolic link stays a link. Only the owner can read the page, like the session. Raises OSError.
    """
    real = Path(os.path.realpath(target))
    if os.path.isdir(real):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if os.path.exists(real) and not os.path.isfile(real):
        raise OSError(errno.EEXIST, "Something that is not a file has this name")
    remove_leftovers_in(real.parent)
    handle, unfinished = temporary(real.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
            file.flush()
            check_target(target, force=force)  # again, because rendering takes a while
            unfinished.replace(real)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
