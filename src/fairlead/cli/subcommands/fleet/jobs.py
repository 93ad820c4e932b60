"""`fairlead jobs`: submit jobs to a fleet of workers, follow them, and collect what came of them."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.cli.console import print_exact, print_text
from fairlead.cli.event_loop import run
from fairlead.cli.subcommands.fleet.worker import database
from fairlead.cli.subcommands.sessions import dollars
from fairlead.cli.subcommands.subcommand import Options, Subcommand, clip, table, terminal_width
from fairlead.cli.subcommands.table import find
from fairlead.config.home import expand_user, working_directory
from fairlead.core.lenient import one_line
from fairlead.core.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, UserMessage, readable_error, user_text
from fairlead.errors import ConfigError, DatabaseUnavailable
from fairlead.export.content_blocks import count
from fairlead.jobs import Job, Jobs
from fairlead.jobs.database import DatabaseUrl
from fairlead.jobs.results_export import export_jobs
from fairlead.jobs.task import read_tasks

if TYPE_CHECKING:
    from fairlead.jobs import JobEvent, JobResult
    from fairlead.wire.dialects import Program


_ACTIONS = ("submit", "list", "show", "logs", "watch", "cancel", "retry", "export")
#: The flags of `jobs submit --prompt`, which are fields of a task.
_FIELDS = ("workdir", "repo", "commit", "model", "key")


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

    work = _action(action, command, options, rest)
    if action != "submit":
        _check_exists(url)

    async def act() -> int:
        async with Jobs(url) as fleet:
            return await work(fleet)

    return run(act())


def _action(action: str, command: Subcommand, options: Options, rest: Sequence[str]) -> Callable[[Jobs], Awaitable[int]]:
    """Return what to do, after a check of its words."""
    if action != "submit" and (given := [name for name in ("prompt", "id", *_FIELDS) if options.has(name)]):
        raise command.usage_error(f"--{given[0]} is for fairlead jobs submit.")
    if action == "submit":
        tasks = _read_tasks(command, options, rest)
        return lambda fleet: _submit(fleet, tasks, one=options.has("prompt"))
    if action in ("show", "logs"):
        if len(rest) != 1:
            raise command.usage_error(f"fairlead jobs {action} takes the id of one job.")

        read = show if action == "show" else logs
        return lambda fleet: read(fleet, rest[0], as_json=options.has("json"))
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
        return watch
    return lambda fleet: _list(fleet, as_json=options.has("json"))


def _check_exists(url: str) -> None:
    """Raise ConfigError if the file of the database does not exist, so that a mistyped name does not create one."""
    file = DatabaseUrl(url).file
    if file is not None and not os.path.exists(file):
        raise ConfigError(f"The database {file} does not exist. `fairlead jobs submit` and `fairlead worker` create it.")


def _read_tasks(command: Subcommand, options: Options, rest: Sequence[str]) -> list[Job]:
    """Return the jobs to submit: those of a file, or the one that flags describe. Raises UsageError, ConfigError and JobError."""
    if options.has("prompt"):
        if rest:
            raise command.usage_error("fairlead jobs submit takes a file of tasks or --prompt, not both.")

        fields: dict[str, Any] = {name: options.text(name) for name in _FIELDS}
        if fields["workdir"] is None and fields["repo"] is None:
            fields["workdir"] = str(working_directory())
        id = options.text("id") or f"job-{token_hex(4)}"
        return [Job(id=id, prompt=options.text("prompt") or "", **fields).validate(working_directory())]
    if given := [name for name in ("id", *_FIELDS) if options.has(name)]:
        raise command.usage_error(f"--{given[0]} needs --prompt. A file of tasks names it for each task.")
    if len(rest) != 1:
        raise command.usage_error("fairlead jobs submit takes one file of tasks, - for standard input, or --prompt.")
    return _read(rest[0])


def _read(name: str) -> list[Job]:
    """Read a file of tasks, or standard input. Raises ConfigError and JobError."""
    if name == "-":
        return read_tasks(sys.stdin.buffer, "standard input", working_directory())
    path = expand_user(name).absolute()
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}.") from error
    return read_tasks(lines, name, path.parent)


async def _submit(fleet: Jobs, tasks: Sequence[Job], *, one: bool = False) -> int:
    before = {result.id for result in await fleet.list()}
    results = await fleet.submit(*tasks)
    new = sum(result.id not in before for result in results)
    known = f"; {count(len(results) - new, 'job')} had been submitted before" if new < len(results) else ""
    if one:
        print_text(f"Submitted {results[0].id}. `fairlead jobs logs {results[0].id}` follows it.")
    else:
        print_text(f"Submitted {count(new, 'job')}{known}.")
    return 0


async def _change(fleet: Jobs, action: str, ids: Sequence[str]) -> int:
    results = await (fleet.cancel(*ids) if action == "cancel" else fleet.retry(*ids))
    for result in results:
        print_text(f"{result.id}: {result.status}")
    return 0


async def _list(fleet: Jobs, *, as_json: bool) -> int:
    results = await fleet.list()
    if as_json:
        for result in results:
            fields = {name: getattr(result, name) for name in ("id", "status", "attempts", "cost", "session")}
            print_exact(msgspec.json.encode(fields).decode())
        return 0
    if not results:
        print_text("There are no jobs. `fairlead jobs submit` takes a file of tasks, or --prompt.")
        return 0
    print_text(_table(results))
    return 0


def _table(results: Sequence[JobResult]) -> str:
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
    counts = await export_jobs(fleet, folder)
    print_text(
        f"Wrote {count(counts.results, 'result')}, {count(counts.transcripts, 'transcript')} and"
        f" {count(counts.patches, 'patch', 'patches')} to {folder}."
    )
    return 0


_LONGEST = 200
#: The lines of a result that are shown.
_RESULT_LINES = 5


async def show(fleet: Jobs, id: str, *, as_json: bool) -> int:
    """Print everything that is known of a job. Raises JobNotFound."""
    result = await fleet.get(id)
    if as_json:
        print_exact(msgspec.json.encode(result).decode())
        return 0
    rows = {
        "id": result.id,
        "status": result.status,
        "session": result.session,
        "attempts": str(result.attempts),
        "turns": str(result.turns),
        "tokens": f"{result.tokens:,}",
        "cost": dollars(result.cost),
        "time": f"{result.seconds:.1f} s",
        "labels": ", ".join(f"{name}={value}" for name, value in result.labels.items()),
        "snapshot": result.snapshot or "",
    }
    width = max(map(len, rows))
    for name, value in rows.items():
        if value:
            print_text(f"{name:{width}}  {one_line(value)}")
    for title, text in (("Error", result.error), ("Answer", result.answer)):
        if text:
            print_text(f"\n{title}:\n{text.rstrip()}")
    return 0


async def logs(fleet: Jobs, id: str, *, as_json: bool) -> int:
    """Print what a job has done, and go on until it has ended. Returns 0 if it is done, else 1. Raises JobNotFound."""
    async for event in fleet.events(id):
        if as_json:
            print_exact(msgspec.json.encode(event).decode())
        elif text := _describe(event):
            print_text(text)
        else:
            continue
        sys.stdout.flush()
    result = await fleet.get(id)
    if not as_json:
        end = {"failed": "failed", "cancelled": "was cancelled"}.get(result.status, f"is {result.status}")
        print_text(f"The job {end}{f': {one_line(result.error)}' if result.error else '.'}")
    return 0 if result.status == "done" else 1


def _describe(event: JobEvent) -> str:
    """Return the lines that stand for an event; an empty text if it has none. Pieces of an answer come again as a message."""
    data = event.data
    match event.type:
        case "message":
            with suppress(msgspec.ValidationError):  # a newer worker may have messages that this version does not know
                return _describe_message(msgspec.convert(data.get("message"), Message, strict=False))
            return ""
        case "started":
            return f"- Started by {one_line(str(data.get('worker')))} (attempt {data.get('attempt')})"
        case "retry":
            return f"! The model failed: {one_line(str(data.get('error')))} (attempt {data.get('attempt')} of {data.get('of')})"
        case "compaction":
            return "- The model summarises older messages."
        case _:
            return ""


def _describe_message(message: Any) -> str:
    match message:
        case UserMessage():
            return f"> {user_text(message).strip()}"
        case AssistantMessage():
            said = [message.text().strip()] if message.text().strip() else []
            called = [f"* {_describe_call(call)}" for call in message.tool_calls()]
            failed = [f"! {one_line(readable_error(message.error_message))}"] if message.error_message else []
            return "\n".join([*said, *called, *failed])
        case ToolResultMessage():
            lines = "\n".join(getattr(block, "text", "[image]") for block in message.content).strip().splitlines()
            more = [f"… {len(lines) - _RESULT_LINES} more lines"] if len(lines) > _RESULT_LINES else []
            mark = "!" if message.is_error else "|"
            return "\n".join(f"  {mark} {line[:_LONGEST]}" for line in [*lines[:_RESULT_LINES], *more])
        case _:
            return ""


def _describe_call(call: ToolCall) -> str:
    subject = next((value for value in call.arguments.values() if isinstance(value, str)), "")
    return f"{call.name}: {one_line(subject)[:_LONGEST]}" if subject else call.name


#: How often the view is drawn, in seconds: on a terminal, and in a file.
_TERMINAL_SECONDS, _FILE_SECONDS = 0.5, 5.0
#: How many running jobs are shown, and the time over which the rate is measured.
_SHOWN, _RATE_SECONDS = 8, 60.0


async def watch(fleet: Jobs) -> int:
    """Show progress until all jobs have ended. Returns 0 if all are done, else 1."""
    view = WatchView(is_terminal=sys.stdout.isatty())
    results = await fleet.list()
    while True:
        view.show(results)
        if all(result.has_ended for result in results):
            return 0 if all(result.status == "done" for result in results) else 1
        await asyncio.sleep(_TERMINAL_SECONDS if sys.stdout.isatty() else _FILE_SECONDS)
        with suppress(DatabaseUnavailable):  # workers wait for the database too
            results = await fleet.list()


class WatchView:
    """Draws the state of all jobs: over itself on a terminal, else one line at a time."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._drawn = 0
        self._last = ""
        self._ends: list[tuple[float, int]] = []

    def show(self, results: Sequence[JobResult]) -> None:
        """Draw the jobs as they are now."""
        now = time.monotonic()
        ended = sum(result.has_ended for result in results)
        self._ends = [*(each for each in self._ends if now - each[0] < _RATE_SECONDS), (now, ended)]
        began, before = self._ends[0]
        rate = (ended - before) / (now - began) * 60 if now > began else 0.0
        lines = summary_lines(results, rate, terminal_width() if self._is_terminal else None)
        if not self._is_terminal:
            if lines[0] != self._last:
                print_text(lines[0])
                sys.stdout.flush()
            self._last = lines[0]
            return
        if self._drawn:
            sys.stdout.write(f"\x1b[{self._drawn}F\x1b[J")
        sys.stdout.write("".join(f"{clip(one_line(line), terminal_width() - 1)}\n" for line in lines))
        sys.stdout.flush()
        self._drawn = len(lines)


def summary_lines(results: Sequence[JobResult], rate: float, width: int | None) -> list[str]:
    """Return the view as lines: a bar with counts, cost and rate, then the jobs that run.

    On a terminal that is too narrow for the first line, it becomes two or three. `width` is None in a file.
    """
    counts = Counter(result.status for result in results)
    ended = sum(result.has_ended for result in results)
    cells = 10 if width is None else min(30, max(10, width - 90))
    full = round(cells * ended / len(results)) if results else cells
    bar = f"[{'#' * full}{'.' * (cells - full)}] {ended}/{len(results)}"
    parts = [f"{counts[status]} {status}" for status in ("running", "queued", "done", "failed", "cancelled", "parked")]
    kept = [part for part in parts if not part.startswith("0 ") or part.endswith((" running", " done", " failed"))]
    counted, used = ", ".join(kept), f"cost {dollars(sum(result.cost for result in results))}  {rate:.1f} jobs/min"
    head = [f"{bar}  {counted}  {used}"]
    if width is not None and len(head[0]) >= width:
        both = f"{bar}  {used}"
        head = [both, f"  {counted}"] if len(both) < width else [bar, f"  {counted}", f"  {used}"]
    running = [result for result in results if result.status == "running"]
    lines = [*head, *(_running_line(result) for result in running[:_SHOWN])]
    if len(running) > _SHOWN:
        lines.append(f"  and {len(running) - _SHOWN} more")
    return lines


def _running_line(result: JobResult) -> str:
    attempt = f", attempt {result.attempts}" if result.attempts > 1 else ""
    turns = "1 turn" if result.turns == 1 else f"{result.turns} turns"
    return f"  {result.id}  {turns}, {dollars(result.cost)}{attempt}"
