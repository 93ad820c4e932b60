"""The subcommands for fleets, `worker` and `jobs`, and their rows in the table of subcommands."""

from __future__ import annotations

from fairlead.cli.flags import Flag
from fairlead.cli.subcommands.subcommand import Subcommand

_DATABASE = Flag(("--db",), "db", "value", "sqlite:///FILE or postgresql://USER@HOST/NAME; else FAIRLEAD_JOBS_DB", "URL")

FLEET_SUBCOMMANDS: tuple[Subcommand, ...] = (
    Subcommand(
        name="worker",
        group="fleet",
        summary="run the jobs of a database",
        run="fleet.worker:worker",
        usage=("--db URL [--sessions N] [FLAGS]",),
        about="Runs jobs that `fairlead jobs submit` or fairlead.jobs has queued, in a process per core. When a worker\n"
        "dies, another one continues its jobs. The secret of a job's key is read from FAIRLEAD_KEY_NAME.",
        flags=(
            _DATABASE,
            Flag(("--sessions",), "sessions", "value", "how many jobs run at the same time, by default 8", "N"),
            Flag(("--processes",), "processes", "value", "how many processes, by default one per core", "N"),
            Flag(("--key",), "key", "list", "limit a key: NAME=JOBS or NAME=JOBS,STARTS/SECONDS", "LIMIT"),
            Flag(("--data",), "data", "value", "the directory of mirrors and worktrees, by default in the home", "DIR"),
            Flag(("--model",), "model", "value", "the model of jobs that name none", "PATTERN"),
            Flag(("--provider",), "provider", "value", "its provider", "NAME"),
            Flag(("--base-url",), "base_url", "value", "the address of its server", "URL"),
            Flag(("--thinking",), "thinking", "value", "how much the model thinks", "LEVEL"),
            Flag(("--tools",), "tools", "value", "the tools that the model may use", "NAMES"),
            Flag(("--approval",), "approval", "value", "what to do when a tool wants to change something", "MODE"),
            Flag(("--sandbox",), "sandbox", "value", "workspace runs commands in a sandbox", "MODE"),
            Flag(("--isolated",), "isolated", "switch", "read no configuration: only keys from the environment count"),
            Flag(("--verbose",), "verbose", "switch", "log more"),
        ),
        examples=("worker --db sqlite:///jobs.db --sessions 4", "worker --db postgresql://fleet@db/jobs --key team-a=16,60/60"),
    ),
    Subcommand(
        name="jobs",
        group="fleet",
        summary="submit, list, show, follow, cancel, retry or export jobs",
        run="fleet.jobs:jobs",
        usage=(
            "submit --db URL TASKS.jsonl",
            "submit --db URL --prompt TEXT [--workdir DIR | --repo REPO --commit COMMIT] [--model PATTERN]",
            "list|show|logs --db URL [ID] [--json]",
            "watch --db URL",
            "cancel|retry --db URL ID...",
            "export --db URL DIR",
        ),
        about='A task is a line of JSON: {"id", "prompt", "workdir" or "repo" and "commit", "model", "limits", "key",\n'
        '"priority", "labels"}. Submitting a file twice changes nothing. `fairlead help fleet` explains all fields.',
        flags=(
            _DATABASE,
            Flag(("--json",), "json", "switch", "print one object of JSON per line"),
            Flag(("--prompt",), "prompt", "value", "what the agent has to do, instead of a file of tasks", "TEXT"),
            Flag(("--id",), "id", "value", "the id of that job, by default a new one", "ID"),
            Flag(("--workdir",), "workdir", "value", "the directory it works in, by default the current one", "DIR"),
            Flag(("--repo",), "repo", "value", "the repository of git that it works in instead", "REPO"),
            Flag(("--commit",), "commit", "value", "the commit to check out", "COMMIT"),
            Flag(("--model",), "model", "value", "its model, by default that of the worker", "PATTERN"),
            Flag(("--key",), "key", "value", "the provider key whose limits apply", "NAME"),
        ),
        words=("submit", "list", "show", "logs", "watch", "cancel", "retry", "export"),
        examples=(
            "jobs submit --db sqlite:///jobs.db tasks.jsonl",
            'jobs submit --db sqlite:///jobs.db --prompt "Fix the typos in README.md"',
        ),
    ),
)
