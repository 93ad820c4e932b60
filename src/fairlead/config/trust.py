"""Whether a project is trusted: whether it may run extensions and servers here, and whether its settings count.

Opening a repository must not execute it. Code of a project runs only after a decision, looked for in this order:
`--approve` or `--no-approve` for one run; one of the user's extensions (`project_trust`); `trust.json` in the home, where the
nearest of the project's folder and the folders above it decides; the setting `defaultProjectTrust`. With `ask`, the user is asked
where there is a way to ask, unless fairlead was started under the name of a peer.

A yes in `trust.json` covers a folder and those below it with the code that they had then. If a project has other code now, or was
not there, there is no decision about it. The files of peers have a plain `true`, as the peer writes it, and it covers any code.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.config import json_files, project_files
from fairlead.config.home import Home
from fairlead.config.project_code import fingerprints, project_code, projects_in
from fairlead.config.settings import DefaultTrust
from fairlead.config.settings_parsing import remark
from fairlead.core.lenient import one_line
from fairlead.core.questions import reveal
from fairlead.errors import ConfigError


class TrustDecider:
    """The decision about a project, made once for each folder and kept for the run.

    `consult` asks the user's own extensions, and `ask` asks the user. Both may have no opinion. The extension engine and the
    agent set them.
    """

    def __init__(
        self,
        home: Home,
        *,
        approve: bool | None = None,
        default: DefaultTrust = "ask",
        warn: Callable[[Sequence[str]], None] = lambda warnings: None,
    ) -> None:
        self.consult: Callable[[Path], Awaitable[bool | None]] | None = None
        self.ask: Callable[[Path], Awaitable[bool | None]] | None = None
        self._home = home
        self._approve = approve
        self._default: DefaultTrust = default
        self._warn = warn
        self._decided: dict[Path, _Decided] = {}
        #: Decisions that are being made.
        self._pending: dict[Path, asyncio.Future[bool]] = {}
        #: The answer without a decision. A trust.json that cannot be read may say that a project is never trusted.
        self._undecided = default == "always"
        #: Hosts of the peers do not expect this question, and some never answer it: pi asks in its terminal alone.
        self._asks = default == "ask" and home.peer is None

    def is_trusted(self, cwd: Path) -> bool:
        """Return whether the project is trusted, as far as is known without asking."""
        real = real_folder(cwd)
        return self._decided[real].trusted if real in self._decided else bool(self._decide_without_asking(real))

    async def decide(self, cwd: Path) -> bool:
        """Return whether the project is trusted; ask extensions and the user if need be. If it is not, warn what that means."""
        real = real_folder(cwd)
        if real in self._decided:
            return self._decided[real].trusted
        if real not in self._pending:  # the user is asked once
            self._pending[real] = asyncio.ensure_future(self._decide(real))
        return await asyncio.shield(self._pending[real])

    def reconsider(self) -> None:
        """Find out again about projects that were not trusted, or that have other code now."""
        self._decided = {
            folder: decided
            for folder, decided in self._decided.items()
            if decided.trusted and (self._approve or decided.code == self._code(folder))
        }

    async def _decide(self, real: Path) -> bool:
        try:
            code = None if self._approve else self._code(real)
            trusted = await self._find_out(real)
            self._decided[real] = _Decided(trusted, code)
        finally:
            del self._pending[real]
        if not trusted and self._approve is None and self._default != "never":
            (self._warn if self._home.peer is None else remark)([format_not_trusted(self._home, real)])
        return trusted

    async def _find_out(self, real: Path) -> bool:
        if self._approve is not None:
            return self._approve
        for opinion in (self.consult, self._find_saved, self.ask if self._asks else None):
            trusted = None if opinion is None else await opinion(real)
            if trusted is not None:
                return trusted
        return self._undecided

    async def _find_saved(self, real: Path) -> bool | None:
        return self._look_up(real)

    def _decide_without_asking(self, real: Path) -> bool | None:
        if self._approve is not None:
            return self._approve
        saved = self._look_up(real)
        return self._undecided if saved is None else saved

    def _look_up(self, real: Path) -> bool | None:
        try:
            return find_saved_decision(self._home, real)
        except ConfigError as error:
            self._undecided = False
            self._warn([f"{error} No project is trusted by it."])
            return None

    def _code(self, real: Path) -> dict[str, str] | None:
        try:
            return code_of(self._home, real)
        except ConfigError:
            return None


class _Decided(Struct, frozen=True):
    """Whether a project is trusted, and the code that it had then."""

    trusted: bool
    code: dict[str, str] | None


def format_not_trusted(home: Home, folder: Path) -> str:
    """Return the remark about a project that is not trusted: what is left out, and how to trust it."""
    changed = describe_changes(home, folder)
    why = f" {changed}" if changed else ""
    hint = format_trust_hint(folder)
    return f"The project {escape_path(folder)} is not trusted: its extensions and servers are not run.{why} {hint}"


def format_trust_hint(folder: Path) -> str:
    """Return a sentence that tells the user how to trust the project in a directory."""
    return f"To trust it, run `fairlead trust {escape_path(real_folder(folder))}`, or pass --approve for one run."


def describe_changes(home: Home, folder: Path) -> str:
    """Return a sentence about why a yes in trust.json does not cover a project; empty if there is no such yes, or it does."""
    try:
        found = find_decision(home, folder)
    except ConfigError:
        return ""
    if found is None or found.trusted is not True or found.covers:
        return ""
    if found.problem is not None:
        return found.problem
    names = ", ".join(escape_path(name) for name in found.changed[:_NAMED])
    more = f" and {len(found.changed) - _NAMED} more" if len(found.changed) > _NAMED else ""
    since = "was trusted before fairlead kept a record of its code" if found.is_old else "has other code than when it was trusted"
    return f"It {since}: {names}{more}."


def trust_question(home: Home, folder: Path) -> str:
    """Return the question whether to trust a project: what would run, with which rights, what a yes covers and for how long."""
    real = real_folder(folder)
    parts = list(dict.fromkeys(f"{os.path.relpath(code.path, real)} ({code.kind})" for code in project_code(home, real)))
    listed = ", ".join(map(escape_path, parts[:_NAMED])) + (f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else "")
    changed = describe_changes(home, real)
    before = f"{changed} " if changed else ""
    return (
        f"{before}{escape_path(real)} has its own code, which runs with all your permissions: "
        f"{listed or 'extensions or MCP servers'}. {SCOPE} Trust it?"
    )


#: What a yes covers.
SCOPE = (
    "Trust covers this folder and all folders in it, from now on. "
    "fairlead asks again when the code that they would run has changed."
)
#: The same under the name of a peer, whose file has no place for a record of code.
PEER_SCOPE = "Trust covers this folder and all folders in it, from now on, whatever code they have."
#: How many files a remark or a question names.
_NAMED = 10


def is_own_folder(home: Home, folder: Path) -> bool:
    """Return whether what looks like a folder of the project is the user's own home."""
    return real_folder(folder) == real_folder(home.root)


def trust_path(home: Home) -> Path:
    return home.root / "trust.json"


class SavedDecision(Struct, frozen=True):
    """What trust.json says of a project.

    `folder` is the one that was decided about: the project, or one above it. For a yes, `code` is what the project has now, and
    `changed` are the names of what is new in it, has changed or is gone. `problem` says why that cannot be found out.
    """

    folder: Path
    trusted: bool
    changed: Sequence[str] = ()
    problem: str | None = None
    #: Whether the yes was given before the code was recorded.
    is_old: bool = False

    @property
    def covers(self) -> bool:
        """Whether the decision holds for the project as it is now. A no always does."""
        return not self.trusted or (not self.changed and self.problem is None)


def find_saved_decision(home: Home, folder: Path) -> bool | None:
    """Return what trust.json says of a folder, or of the nearest one above it; None: nothing, or not of the code it has now.

    Raises ConfigError if the file cannot be understood.
    """
    found = find_decision(home, folder)
    return found.trusted if found is not None and found.covers else None


def find_decision(home: Home, folder: Path) -> SavedDecision | None:
    """Return what trust.json says of a folder, or of the nearest one above it. Raises ConfigError like `find_saved_decision`."""
    if home.isolated:
        return None
    entries = _entries(home)
    real = real_folder(folder)
    decided = next((each for each in (real, *real.parents) if str(each) in entries), None)
    if decided is None:
        return None
    entry = entries[str(decided)]
    if entry is False:
        return SavedDecision(decided, False)
    if decided != real and not project_files.is_owned(real, decided):
        problem = f"It belongs to another user than {escape_path(decided)}, which is trusted."
        return SavedDecision(decided, True, problem=problem)
    if home.peer is not None and entry is True:
        return SavedDecision(decided, True)
    recorded = {} if entry is True else entry.code.get(str(real), {})
    try:
        now = code_of(home, real)
    except ConfigError as error:
        return SavedDecision(decided, True, problem=str(error))
    changed = sorted(name for name in now.keys() | recorded.keys() if now.get(name) != recorded.get(name))
    # What was taken away runs no more.
    return SavedDecision(decided, True, [name for name in changed if name in now], is_old=entry is True)


def code_of(home: Home, folder: Path) -> dict[str, str]:
    """Return a hash for each part of the code that a project has now. Raises ConfigError if there is too much of it."""
    real = real_folder(folder)
    return fingerprints(project_code(home, real), real)


class _Trusted(Struct, frozen=True):
    """A yes: the hashes of the code that a folder, and projects in it, had at the time, by the path of the project."""

    code: dict[str, dict[str, str]]


def all_decisions(home: Home) -> dict[str, bool]:
    """Everything that trust.json says, by folder. Raises ConfigError if the file cannot be understood."""
    return {folder: entry is not False for folder, entry in _entries(home).items()}


def _entries(home: Home) -> dict[str, _Trusted | bool]:
    path = trust_path(home)
    data = project_files.read_if_present(path)
    decisions = json_files.parse_object(path, data) if data is not None else {}
    entries: dict[str, _Trusted | bool] = {}
    for folder, entry in decisions.items():
        if entry is None:
            continue
        if not isinstance(entry, bool):
            try:
                entry = msgspec.convert(entry, _Trusted)
            except msgspec.ValidationError as error:
                found = json_files.describe_value(entry)
                problem = f"expected true or false, found {found}" if found != "an object" else error
                raise ConfigError(f"{path}: {folder}: {problem}.") from None
        entries[folder] = entry
    return entries


def save_decision(home: Home, folder: Path, trusted: bool | None, code: dict[str, str] | None = None) -> None:
    """Write a decision down; None takes an earlier one away. Raises ConfigError if the file cannot be changed.

    A yes is kept with the code of the folder and of the projects in it. `code` is what the user was shown of the folder,
    if it may have changed since.
    """
    home.refuse_if_shared("Decisions about projects")
    if home.isolated:
        raise ConfigError("Decisions about projects are not saved in an isolated run.")
    real = real_folder(folder)
    entry: Any = trusted
    if trusted and home.peer is None:
        entry = {"code": _build_record(home, real, code)}

    def change(decisions: dict[str, Any]) -> None:
        if trusted is None:
            decisions.pop(str(real), None)
        else:
            decisions[str(real)] = entry

    json_files.update_object(trust_path(home), change)


def _build_record(home: Home, real: Path, code: dict[str, str] | None) -> dict[str, dict[str, str]]:
    recorded: dict[str, dict[str, str]] = {}
    for project in projects_in(home, real):
        if code is not None and project == real:
            recorded[str(project)] = code
            continue
        try:
            recorded[str(project)] = code_of(home, project)
        except ConfigError:
            if project == real:
                raise
    return {project: found for project, found in recorded.items() if found}


@contextmanager
def keeping_trust(home: Home, folder: Path) -> Generator[None]:
    """Let the user change the code of a project during the block. A project that was trusted stays so."""
    try:
        found = None if home.isolated else find_decision(home, folder)
    except ConfigError:
        found = None
    yield
    if found is not None and found.trusted and found.covers and find_saved_decision(home, folder) is None:
        save_decision(home, folder, True)


def real_folder(folder: Path) -> Path:
    """Return the folder without links in its path: a decision about it holds however it is reached."""
    return Path(os.path.realpath(folder))


def escape_path(path: Path | str) -> str:
    """Return a path for a line of text, with escapes for what would control a terminal or end the line, and for what hides.

    Without them, a folder could look like another one that the user trusts.
    """
    return reveal(one_line(str(path)))
