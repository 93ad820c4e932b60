"""`fairlead worker`: run the jobs of a database."""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.agent.options import AgentOptions
from fairlead.cli.build import agent_options
from fairlead.cli.console import print_text
from fairlead.cli.event_loop import run
from fairlead.cli.flags import parse
from fairlead.cli.subcommands.subcommand import Options, Subcommand
from fairlead.cli.subcommands.table import find
from fairlead.config.home import Home, expand_user
from fairlead.jobs import KeyLimits
from fairlead.jobs.supervisor import Supervisor, SupervisorOptions

if TYPE_CHECKING:
    from fairlead.wire.dialects import Program

#: Flags of the agents, and the options that they become. All of these can be sent to a worker process as JSON.
_AGENT_FLAGS = ("model", "provider", "base_url", "thinking", "approval", "sandbox", "tools")
_AGENT_OPTIONS = (*_AGENT_FLAGS, "exclude_tools", "isolated")
#: `KEY=8`, `KEY=8,60/60` or `KEY=,60/60`.
_KEY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=([0-9]{1,6})?(?:,([0-9]{1,6})/([0-9]{1,6}))?")
_MOST_SESSIONS = 10_000


def worker(words: Sequence[str], program: Program) -> int:
    """Run jobs until SIGTERM or SIGINT. Returns the exit code. Raises UsageError, ConfigError or DatabaseUnavailable."""
    command = find("worker", program)
    assert command is not None
    options = command.parse(words)
    if options.words:
        raise command.usage_error(f"fairlead worker takes flags only, not {options.words[0]!r}.")
    url = database(command, options)
    sessions = _number(command, options, "sessions") or 8

    gc.enable()
    processes = _number(command, options, "processes")
    supervisor_options = SupervisorOptions(
        url=url,
        sessions=sessions,
        processes=processes,
        data=_data_folder(options, program),
        keys=dict(_key_limits(command, text) for text in options.texts("key")),
        agent=_agent_options(options, program),
        log_level="INFO" if options.has("verbose") else "WARNING",
    )

    def announce() -> None:
        jobs = "1 job" if sessions == 1 else f"{sessions} jobs"
        print_text(f"Running at most {jobs} at a time. Ctrl-C stops this worker; other workers continue its jobs.")
        sys.stdout.flush()

    async def serve() -> int:
        return await Supervisor(supervisor_options, announce).run()

    logging.basicConfig(level=supervisor_options.log_level, format="fairlead: %(message)s", stream=sys.stderr)
    return run(serve())


def database(command: Subcommand, options: Options) -> str:
    """Return the address of the database: that of `--db`, else of FAIRLEAD_JOBS_DB. Raises UsageError."""
    url = options.text("db") or os.environ.get("FAIRLEAD_JOBS_DB")
    if not url:
        raise command.usage_error(
            "Which database? Give --db sqlite:///jobs.db for this machine or --db postgresql://USER@HOST/NAME for a fleet, or set"
            " FAIRLEAD_JOBS_DB."
        )
    return url


def _data_folder(options: Options, program: Program) -> Path:
    """Return the directory of a worker's mirrors and worktrees."""
    given = options.text("data")
    if given is not None:
        return expand_user(given).absolute()
    return Home.find(os.environ, isolated=False, peer=program.home).jobs_dir


def _agent_options(options: Options, program: Program) -> dict[str, Any]:
    """Return the options of the agents of all jobs. Raises UsageError and ConfigError, as `fairlead` does for its own flags."""
    words = [f"--{name.replace('_', '-')}={options.text(name)}" for name in _AGENT_FLAGS if options.has(name)]
    arguments = parse([*words, *(["--isolated"] if options.has("isolated") else [])])
    chosen, default = agent_options(arguments, None, program), AgentOptions()
    given: dict[str, Any] = {}
    for name in _AGENT_OPTIONS:
        if getattr(chosen, name) != getattr(default, name):
            given[name] = getattr(chosen, name)
    if chosen.behaviour.default_tools != default.behaviour.default_tools:  # what --tools adds
        tools = chosen.behaviour
        given["behaviour"] = {"default_tools": tools.default_tools, "small_model_tools": tools.small_model_tools}
    return given


def _number(command: Subcommand, options: Options, name: str) -> int | None:
    text = options.text(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _MOST_SESSIONS):
        raise command.usage_error(f"--{name}: expected a whole number from 1 to {_MOST_SESSIONS}, got {text!r}.")
    return int(text)


def _key_limits(command: Subcommand, text: str) -> tuple[str, KeyLimits]:
    found = _KEY.fullmatch(text)
    if found is None or (found[2] is None and found[3] is None) or "0" in (found[2], found[3], found[4]):
        raise command.usage_error(
            f"--key: expected NAME=JOBS or NAME=JOBS,STARTS/SECONDS, such as team-a=8 or team-a=8,60/60, got {text!r}."
        )
    name, concurrency, rate, period = found.groups()
    return name, KeyLimits(
        concurrency=None if concurrency is None else int(concurrency),
        rate=None if rate is None else int(rate),
        period=float(period or 60),
    )
