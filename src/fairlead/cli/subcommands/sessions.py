"""`fairlead sessions` and `fairlead export`: list, show, rename and delete sessions, and write them as HTML pages."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.cli.advice import nearest
from fairlead.cli.console import complain, print_bytes, print_exact, print_text
from fairlead.cli.flags import UsageError
from fairlead.cli.subcommands.subcommand import Options, Subcommand, table
from fairlead.cli.subcommands.table import find
from fairlead.core.lenient import one_line
from fairlead.core.snapshots import SessionInfo, title_of
from fairlead.errors import ConfigError, FairleadError, SessionError
from fairlead.export.page import default_target, export_file, render_file
from fairlead.platform.open_files import make_private_folders
from fairlead.session.history.spending import Spending, spendings
from fairlead.session.history.store import SessionFile
from fairlead.sessions.catalogue import SessionPlaces, age, short_id
from fairlead.stores.deleting import delete_session
from fairlead.stores.headers import refuse_endless
from fairlead.stores.listing import describe, is_path
from fairlead.wire.dialects import Program

#: How many sessions a table shows unless `--limit` asks for more.
_SHOWN = 20
_ACTIONS = ("list", "show", "rename", "delete", "export")


class SessionSummary(Struct):
    """A session with what it used."""

    info: SessionInfo
    spent: list[Spending]

    @property
    def cost(self) -> float:
        return sum(each.cost for each in self.spent)

    @property
    def tokens(self) -> dict[str, int]:
        return {
            "input": sum(each.input for each in self.spent),
            "output": sum(each.output for each in self.spent),
            "cacheRead": sum(each.cache_read for each in self.spent),
            "cacheWrite": sum(each.cache_write for each in self.spent),
        }

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys("/".join(filter(None, (each.provider, each.model))) for each in self.spent if each.model))

    def plain(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            **msgspec.to_builtins(self.info),
            "shortId": short_id(self.info.id),
            "models": self.models,
            "tokens": self.tokens,
            "cost": self.cost,
        }


def sessions(words: Sequence[str], program: Program) -> int:
    """Run `fairlead sessions ...`. Returns the exit code. Raises UsageError or SessionError."""
    command = find("sessions", program)
    assert command is not None
    options = command.parse(words)
    action, *rest = options.words or ["list"]
    if action not in _ACTIONS:
        raise command.usage_error(f"fairlead sessions has no action {action!r}.{nearest(action, _ACTIONS)}")
    places = SessionPlaces.find(program.home, os.environ, options.text("session_dir"))
    if action == "list":
        return _list(command, options, rest, places)
    if not rest:
        raise command.usage_error(f"fairlead sessions {action} needs a session: its id, its name, its file, or `last`.")
    if action == "show":
        return _show(command, options, rest, places)
    if action == "rename":
        return _rename(command, rest, places)
    if action == "delete":
        return _delete(options, rest, places)

    return export_sessions(rest, places, force=options.has("force"), output=options.text("output"))


def summarise(path: Path, modified_ns: int) -> SessionSummary:
    """Read a session file completely. If it cannot be read, `info.problem` says why."""
    info = describe(path, modified_ns, whole=True)
    if info.problem is not None:
        return SessionSummary(info, [])
    try:
        refuse_endless(path, whole=True)
        return SessionSummary(info, list(spendings(path.read_bytes())))
    except (OSError, SessionError):
        return SessionSummary(info, [])


def _list(command: Subcommand, options: Options, rest: list[str], places: SessionPlaces) -> int:
    if rest:
        raise command.usage_error(f"fairlead sessions list takes no other words, got {rest[0]!r}.")
    everywhere = options.has("all")
    found = places.files(everywhere=everywhere)
    limit = _limit(command, options.text("limit"), None if options.has("json") else _SHOWN)
    shown = [summarise(path, modified) for modified, path in found[:limit]]
    if options.has("json"):
        print_exact(msgspec.json.format(msgspec.json.encode([each.plain() for each in shown])).decode())
        return 0
    if not found:
        print_text(
            "There are no sessions yet."
            if everywhere
            else "This directory has no sessions. `--all` lists those of all directories."
        )
        return 0
    heads = ["ID", "AGE", "MESSAGES", "COST", "TITLE"]
    rows = [_row(each) for each in shown]
    if everywhere:
        heads.insert(4, "DIRECTORY")
        for row, each in zip(rows, shown, strict=True):
            row.insert(4, one_line(_short_folder(each.info.cwd)))
    print_text(table(heads, rows, right="AGE MESSAGES COST", flexible=len(heads) - 1))
    if len(shown) < len(found):
        print_text(f"\n{len(shown)} of {len(found):,} sessions; --limit 0 shows all of them.")
    return 0


def _limit(command: Subcommand, text: str | None, default: int | None) -> int | None:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise command.usage_error(f"--limit: expected a whole number, 0 for no limit, got {text!r}.")
    return int(text) or None


def _row(summary: SessionSummary) -> list[str]:
    info = summary.info
    if info.problem is not None:
        return ["-", age(info.modified), "-", "-", f"{one_line(Path(info.path).name)}: cannot be read"]
    return [
        one_line(short_id(info.id)),
        age(info.modified),
        "-" if info.message_count is None else f"{info.message_count:,}",
        dollars(summary.cost),
        info.title() or "(empty)",
    ]


def dollars(amount: float) -> str:
    """Format a cost for a table: `$1.23`, `$0.0042`, or `-` for nothing."""
    return "-" if not amount else f"${amount:,.2f}" if amount >= 0.1 else f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def _ago(modified_ms: int) -> str:
    elapsed = age(modified_ms)
    return elapsed if elapsed == "now" else f"{elapsed} ago"


def _short_folder(folder: str) -> str:
    home = str(Path.home())
    return f"~{folder[len(home) :]}" if folder == home or folder.startswith(f"{home}/") else folder


def _show(command: Subcommand, options: Options, rest: list[str], places: SessionPlaces) -> int:
    if len(rest) > 1:
        raise command.usage_error("fairlead sessions show takes one session.")
    path = places.choose(rest[0])
    summary = summarise(path, path.stat().st_mtime_ns)
    info = summary.info
    if info.problem is not None:
        raise SessionError(info.problem)
    if options.has("json"):
        print_exact(msgspec.json.format(msgspec.json.encode(summary.plain())).decode())
        return 0
    tokens = summary.tokens
    facts = [
        ("Name", info.name or ""),
        ("Id", info.id),
        ("File", info.path),
        ("Directory", info.cwd),
        ("Started", _moment(info.created)),
        ("Changed", f"{_moment(info.modified)} ({_ago(info.modified)})"),
        ("Messages", "" if info.message_count is None else f"{info.message_count:,}"),
        ("Models", ", ".join(summary.models)),
        ("Tokens", f"{tokens['input']:,} in, {tokens['output']:,} out, {tokens['cacheRead']:,} from the cache"),
        ("Cost", dollars(summary.cost)),
        ("Forked from", info.parent_session or ""),
        ("First message", title_of(None, info.first_message, 500)),
    ]
    width = max(len(name) for name, value in facts if value) + 2
    for name, value in facts:
        if value:
            print_text(f"{name:{width}}{one_line(value)}")
    print_text(f"\nResume it with: fairlead --resume {short_id(info.id)}")
    return 0


def _moment(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return ""


def _rename(command: Subcommand, rest: list[str], places: SessionPlaces) -> int:
    name = " ".join(rest[1:]).strip()
    if not name:
        raise command.usage_error("fairlead sessions rename needs a session and its new name.")
    path = places.choose(rest[0])

    status = path.stat()
    file, log, problems = SessionFile.open(path)
    try:
        log.session_info(name)
    finally:
        file.close()
    # A new name does not make it the latest session.
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for problem in problems:
        complain(f"fairlead: {problem}")
    print_text(f"The session {short_id(log.header.id)} has the name {title_of(name, '')}.")
    return 0


def _delete(options: Options, rest: list[str], places: SessionPlaces) -> int:
    paths = list(dict.fromkeys(places.choose(word) for word in rest))
    if not options.has("yes") and not _confirm(paths):
        complain("Nothing was deleted.")
        return 1
    code = 0
    for path in paths:
        try:
            delete_session(path)
            print_text(f"Deleted {one_line(str(path))}")
        except FairleadError as error:
            complain(f"Error: {error}")
            code = 1
    return code


def _confirm(paths: list[Path]) -> bool:
    """Ask whether to delete sessions. Raises SessionError if there is no terminal to ask at."""
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise SessionError("Deleting asks first, and there is no terminal to ask at. Add --yes to delete without asking.")
    for path in paths:
        info = describe(path, path.stat().st_mtime_ns)
        about = info.title(60) or path.name
        complain(f"  {short_id(info.id) or '-':8}  {age(info.modified):>4}  {about}")
    count = "this session" if len(paths) == 1 else f"these {len(paths)} sessions"
    sys.stderr.write(f"Delete {count}? It cannot be undone. [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


_PAGES = (".html", ".htm")
_HINT = " If that is the name of the page, end it in .html, or use --output."


def export(words: Sequence[str], program: Program) -> int:
    """Write sessions as HTML pages, and print their paths. Raises UsageError, SessionError or ConfigError."""
    command = find("export", program)
    assert command is not None
    options = command.parse(words)
    if not options.words:
        raise command.usage_error("fairlead export needs a session: its file, its id, its name, or `last`.")
    places = SessionPlaces.find(program.home, os.environ, options.text("session_dir"))
    return export_sessions(options.words, places, force=options.has("force"), output=options.text("output"))


def export_as_peers(words: Sequence[str]) -> int:
    """Run `--export SESSION.jsonl [PAGE]`, the flag of pi. Raises ConfigError."""
    print_exact(str(export_file(Path(words[0]), Path(words[1]) if len(words) == 2 else None)))
    return 0


def export_sessions(words: Sequence[str], places: SessionPlaces, *, force: bool, output: str | None) -> int:
    """Write a page for each session that the words name, and print its path.

    Args:
        words: Sessions. The last word may be the page: a name that ends in .html or .htm, or `-` for standard output.
        places: Where ids and names are looked up.
        force: Whether to replace files that no export made.
        output: The page, `-`, or a directory for the pages.

    Returns:
        The exit code: 1 if one of several pages could not be written.

    Raises:
        UsageError: Several sessions have one page.
        FairleadError: The only session cannot be exported.
    """
    words = list(words)
    if output is None and len(words) > 1 and (words[-1] == "-" or words[-1].lower().endswith(_PAGES)):
        output = words.pop()
    folder = Path(output) if output not in (None, "-") and (output.endswith("/") or os.path.isdir(output)) else None
    if len(words) > 1 and output is not None and folder is None:
        raise UsageError(f"{len(words)} sessions do not fit into one page. Name a directory with --output DIR, or no page.")
    if len(words) == 1:
        _export_one(places.choose(words[0]), output, folder, force, {})
        return 0
    code = 0
    taken: dict[Path, Path] = {}
    for word in words:
        try:
            _export_one(places.choose(word), None, folder, force, taken)
        except FairleadError as error:
            complain(f"Error: {error}{_HINT if word == words[-1] and folder is None and not is_path(word) else ''}")
            code = 1
    return code


def _export_one(source: Path, output: str | None, folder: Path | None, force: bool, taken: dict[Path, Path]) -> None:
    """Write one page, unless it was written. `taken` are the pages written so far, each with its session."""
    if output == "-":
        print_bytes(render_file(source))
        return
    target = Path(output) if output is not None and folder is None else default_target(source)
    if folder is not None:
        try:
            make_private_folders(folder)
        except OSError as error:
            raise ConfigError(f"Cannot create the directory {folder}: {error.strerror}.") from error
        target = folder / target.name
    if target in taken and taken[target].resolve() == source.resolve():
        return  # two words for one session
    if target in taken:
        raise SessionError(f"{target} is the page of another of these sessions. Export {source} alone, with another name.")
    export_file(source, target, force=force)
    taken[target] = source
    print_exact(str(target))
