"""`fairlead jobs`: submit jobs to a fleet of workers, follow them, and collect what came of them."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fairlead.cli.console import say, say_exact
from fairlead.cli.subcommands.fleet.worker import database
from fairlead.cli.subcommands.subcommand import Options, Subcommand
from fairlead.cli.subcommands.table import find
from fairlead.config.home import expand_user, working_directory
from fairlead.errors import ConfigError
from fairlead.export.contents import count

if TYPE_CHECKING:
    from fairlead.jobs import Job, JobResult, Jobs
    from fairlead.wire.dialects import Program

_ACTIONS = ("submit", "list", "watch", "cancel", "retry", "export")


def jobs(words: Sequence[str], program: Program) -> int:
    """Run an action on jobs. Returns the exit code. Raises UsageError, ConfigError or JobError."""
    command = find("jobs", program)
    assert command is not None
    options = command.parse(words)
    action, *rest = options.words or [""]
    if action not in _ACTIONS:
        problem = f"fairlead jobs has no action {action!r}." if action else "fairlead jobs needs an action."
        raise command.usage_error(f"{problem} The actions are {', '.join(_ACTIONS)}.")
    url = database(command, options)
    gc.enable()
    from fairlead.cli.event_loop import run
    from fairlead.jobs import Jobs

    work = _action(action, command, options, rest)
    if action != "submit":
        _check_exists(url)

    async def act() -> int:
        async with Jobs(url) as fleet:
            return await work(fleet)

    return run(act())


def _action(action: str, command: Subcommand, options: Options, rest: Sequence[str]) -> Callable[[Jobs], Awaitable[int]]:
    """Return what to do, after a check of its words."""
    if action == "submit":
        if len(rest) != 1:
            raise command.usage_error("fairlead jobs submit takes one file of tasks, or - for standard input.")
        tasks = _read(rest[0])
        return lambda fleet: _submit(fleet, tasks)
    if action in ("cancel", "retry"):
        if not rest:
            raise command.usage_error(f"fairlead jobs {action} needs the id of a job.")
        return lambda fleet: _change(fleet, action, rest)
    if action == "export":
        if len(rest) != 1:
            raise command.usage_error("fairlead jobs export takes one directory.")
        folder = expand_user(rest[0]).absolute()
        return lambda fleet: _export(fleet, folder)
    if rest:
        raise command.usage_error(f"fairlead jobs {action} takes no words, got {rest[0]!r}.")
    if action == "watch":
        from fairlead.cli.subcommands.fleet.watch import watch

        return watch
    return lambda fleet: _list(fleet, as_json=options.has("json"))


def _check_exists(url: str) -> None:
    """Raise ConfigError if the file of the database does not exist, so that a mistyped name does not create one."""
    from fairlead.jobs.database import DatabaseUrl

    file = DatabaseUrl(url).file
    if file is not None and not os.path.exists(file):
        raise ConfigError(f"The database {file} does not exist. `fairlead jobs submit` and `fairlead worker` create it.")


def _read(name: str) -> list[Job]:
    """Read a file of tasks, or standard input. Raises ConfigError and JobError."""
    from fairlead.jobs.task import read_tasks

    if name == "-":
        return read_tasks(sys.stdin.buffer, "standard input", working_directory())
    path = expand_user(name).absolute()
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}.") from error
    return read_tasks(lines, name, path.parent)


async def _submit(fleet: Jobs, tasks: Sequence[Job]) -> int:
    before = {result.id for result in await fleet.list()}
    results = await fleet.submit(*tasks)
    new = sum(result.id not in before for result in results)
    known = f"; {count(len(results) - new, 'job')} had been submitted before" if new < len(results) else ""
    say(f"Submitted {count(new, 'job')}{known}.")
    return 0


async def _change(fleet: Jobs, action: str, ids: Sequence[str]) -> int:
    results = await (fleet.cancel(*ids) if action == "cancel" else fleet.retry(*ids))
    for result in results:
        say(f"{result.id}: {result.status}")
    return 0


async def _list(fleet: Jobs, *, as_json: bool) -> int:
    results = await fleet.list()
    if as_json:
        for result in results:
            fields = {name: getattr(result, name) for name in ("id", "status", "attempts", "cost", "session")}
            say_exact(msgspec.json.encode(fields).decode())
        return 0
    if not results:
        say("There are no jobs. `fairlead jobs submit` takes a file of tasks.")
        return 0
    say(_table(results))
    return 0


def _table(results: Sequence[JobResult]) -> str:
    from fairlead.cli.subcommands.sessions import dollars
    from fairlead.cli.subcommands.tables import table

    rows = [
        [
            result.id,
            result.status,
            str(result.attempts),
            str(result.turns),
            dollars(result.cost),
            " ".join((result.error or result.answer or "").split())[:200],
        ]
        for result in results
    ]
    return table(["ID", "STATUS", "ATTEMPTS", "TURNS", "COST", "ANSWER"], rows, right="ATTEMPTS TURNS COST", flexible=5)


async def _export(fleet: Jobs, folder: Path) -> int:
    from fairlead.jobs.export import export_jobs

    counts = await export_jobs(fleet, folder)
    say(
        f"Wrote {count(counts.results, 'result')}, {count(counts.transcripts, 'transcript')} and"
        f" {count(counts.patches, 'patch', 'patches')} to {folder}."
    )
    return 0
