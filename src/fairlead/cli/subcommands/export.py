"""`fairlead export`: write sessions as HTML pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.console import complain, print_bytes, print_exact
from fairlead.cli.flags import UsageError
from fairlead.cli.subcommands.table import find
from fairlead.errors import ConfigError, FairleadError, SessionError
from fairlead.export.files import default_target, export_file, render_file
from fairlead.platform.open_files import make_private_folders
from fairlead.sessions.places import SessionPlaces
from fairlead.stores.listing import is_path
from fairlead.wire.dialects import Program

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
