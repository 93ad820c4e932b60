"""`fairlead doctor`: what was found on this machine, what is missing, and the command that fixes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import groupby

import msgspec

from fairlead import __version__
from fairlead.cli.console import StatusLine, say, say_exact
from fairlead.cli.event_loop import run
from fairlead.cli.flags import Arguments, UsageError
from fairlead.cli.subcommands.doctor.checks import Finding, check_machine
from fairlead.cli.subcommands.table import command_named
from fairlead.core.lenient import one_line
from fairlead.wire.dialects import Program

#: Seconds that the model has to answer.
_PATIENCE = 30.0
_LONGEST_PATIENCE = 3600.0
#: What the statuses are called, and the width of the widest.
_MARKS = {"ok": "ok", "off": "-", "warn": "warn", "fail": "FAIL"}


def doctor(words: Sequence[str], program: Program) -> int:
    """Check this machine and print what was found. Returns 1 if something does not work, else 0. Raises UsageError."""
    command = command_named("doctor")
    options = command.parse(words)
    if options.words:
        raise command.usage_error(f"fairlead doctor takes no {options.words[0]!r}.")
    arguments = Arguments(
        model=options.text("model"),
        provider=options.text("provider"),
        base_url=options.text("base_url"),
        isolated=options.has("isolated"),
    )
    patience = None if options.has("offline") else _seconds(options.text("timeout"))
    as_json = options.has("json")
    status = StatusLine(lambda: 80) if sys.stderr.isatty() and not as_json else None

    async def check() -> list[Finding]:
        found: list[Finding] = []
        section = ""
        async for finding in check_machine(arguments, program, patience):
            found.append(finding)
            if as_json:
                continue
            if finding.section != section:
                say(f"{'' if not section else chr(10)}{finding.section}")
                section = finding.section
            say(_line(finding))
            if status is not None:
                sys.stdout.flush()
                status.show("…")
        return found

    if not as_json:
        say(f"fairlead {__version__}, Python {sys.version.split()[0]}, {one_line(sys.executable)}\n")
    found = run(check())
    StatusLine.hide_shown()
    code = 1 if any(finding.status == "fail" for finding in found) else 0
    if as_json:
        say_exact(json.dumps({"ok": code == 0, "version": __version__, "findings": msgspec.to_builtins(found)}, indent=2))
    else:
        _summarise(found)
    return code


def _line(finding: Finding) -> str:
    return f"  {_MARKS[finding.status]:5} {one_line(finding.text)}"


def _summarise(found: Sequence[Finding]) -> None:
    """Print what to do about everything that is missing or broken, the most important first."""
    order = ("fail", "warn", "off")
    titles = {"fail": "To fix:", "warn": "To look at:", "off": "To add, if you want it:"}
    todo = sorted((finding for finding in found if finding.fix), key=lambda finding: order.index(finding.status))
    for status, findings in groupby(todo, key=lambda finding: finding.status):
        say(f"\n{titles[status]}")
        for line in dict.fromkeys(one_line(f"  {finding.name}: {finding.fix}") for finding in findings):
            say(line)
    failures = sum(finding.status == "fail" for finding in found)
    say("\nEverything works." if not failures else f"\n{failures} problem{'' if failures == 1 else 's'}.")


def _seconds(text: str | None) -> float:
    if text is None:
        return _PATIENCE
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_PATIENCE:
        raise UsageError(f"--timeout: expected a number of seconds, got {text!r}.")
    return seconds
