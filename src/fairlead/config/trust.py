"""Whether a project is trusted: whether it may run extensions and servers here, and whether its settings count.

Opening a repository must not execute it. Code of a project runs only after a decision, looked for in this order:
`--approve` or `--no-approve` for one run; one of the user's extensions (`project_trust`); `trust.json` in the home, where the
nearest of the project's folder and the folders above it decides; the setting `defaultProjectTrust`. With `ask`, the user is asked
where there is a way to ask, unless fairlead was started under the name of a peer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from fairlead.config import files, json_files
from fairlead.config.home import Home
from fairlead.config.settings import DefaultTrust
from fairlead.config.settings_files import remark
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
        self._decided: dict[Path, bool] = {}
        #: Decisions that are being made.
        self._pending: dict[Path, asyncio.Future[bool]] = {}
        #: The answer without a decision. A trust.json that cannot be read may say that a project is never trusted.
        self._undecided = default == "always"
        #: Hosts of the peers do not expect this question, and some never answer it: pi asks in its terminal alone.
        self._asks = default == "ask" and home.peer is None

    def known(self, cwd: Path) -> bool:
        """Return whether the project is trusted, as far as is known without asking."""
        real = real_folder(cwd)
        return self._decided[real] if real in self._decided else bool(self._said(real))

    async def decide(self, cwd: Path) -> bool:
        """Return whether the project is trusted; ask extensions and the user if need be. If it is not, warn what that means."""
        real = real_folder(cwd)
        if real in self._decided:
            return self._decided[real]
        if real not in self._pending:  # the user is asked once
            self._pending[real] = asyncio.ensure_future(self._decide(real))
        return await asyncio.shield(self._pending[real])

    def reconsider(self) -> None:
        """Find out again about projects that were not trusted."""
        self._decided = {folder: trusted for folder, trusted in self._decided.items() if trusted}

    async def _decide(self, real: Path) -> bool:
        try:
            trusted = self._decided[real] = await self._find_out(real)
        finally:
            del self._pending[real]
        if not trusted and self._approve is None and self._default != "never":
            (self._warn if self._home.peer is None else remark)([not_trusted(real)])
        return trusted

    async def _find_out(self, real: Path) -> bool:
        if self._approve is not None:
            return self._approve
        for opinion in (self.consult, self._saved, self.ask if self._asks else None):
            trusted = None if opinion is None else await opinion(real)
            if trusted is not None:
                return trusted
        return self._undecided

    async def _saved(self, real: Path) -> bool | None:
        return self._look_up(real)

    def _said(self, real: Path) -> bool | None:
        if self._approve is not None:
            return self._approve
        saved = self._look_up(real)
        return self._undecided if saved is None else saved

    def _look_up(self, real: Path) -> bool | None:
        try:
            return saved_decision(self._home, real)
        except ConfigError as error:
            self._undecided = False
            self._warn([f"{error} No project is trusted by it."])
            return None


def not_trusted(folder: Path) -> str:
    return f"The project {folder} is not trusted: its extensions and servers are not run. {how_to_trust(folder)}"


def how_to_trust(folder: Path) -> str:
    """Tell the user how to trust the project in a directory."""
    return f"To trust it, run `fairlead trust {real_folder(folder)}`, or pass --approve for one run."


def is_own_folder(home: Home, folder: Path) -> bool:
    """Return whether what looks like a folder of the project is the user's own home."""
    return real_folder(folder) == real_folder(home.root)


def trust_path(home: Home) -> Path:
    return home.root / "trust.json"


def saved_decision(home: Home, folder: Path) -> bool | None:
    """Return what trust.json says of a folder, or of the nearest one above it; None: nothing.

    Raises ConfigError if the file cannot be understood.
    """
    if home.isolated:
        return None
    decisions = all_decisions(home)
    real = real_folder(folder)
    return next((decisions[str(each)] for each in (real, *real.parents) if str(each) in decisions), None)


def all_decisions(home: Home) -> dict[str, bool]:
    """Everything that trust.json says, by folder. Raises ConfigError if the file cannot be understood."""
    path = trust_path(home)
    data = files.read_if_present(path)
    decisions = json_files.parse_object(path, data) if data is not None else {}
    for folder, trusted in decisions.items():
        if trusted is not None and not isinstance(trusted, bool):
            raise ConfigError(f"{path}: {folder}: expected true or false, found {json_files.found(trusted)}.")
    return {folder: trusted for folder, trusted in decisions.items() if trusted is not None}


def save_decision(home: Home, folder: Path, trusted: bool | None) -> None:
    """Write a decision down; None takes an earlier one away. Raises ConfigError if the file cannot be changed."""
    home.refuse_if_shared("Decisions about projects")
    if home.isolated:
        raise ConfigError("Decisions about projects are not saved in an isolated run.")
    name = str(real_folder(folder))

    def change(decisions: dict[str, Any]) -> None:
        if trusted is None:
            decisions.pop(name, None)
        else:
            decisions[name] = trusted

    json_files.update_object(trust_path(home), change)


def real_folder(folder: Path) -> Path:
    """Return the folder without links in its path: a decision about it holds however it is reached."""
    return Path(os.path.realpath(folder))
