"""`fairlead usage`: cost and tokens by day, model and project."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import msgspec

from fairlead.cli.console import complain, print_bytes, print_exact, print_text
from fairlead.cli.subcommands.sessions import dollars
from fairlead.cli.subcommands.subcommand import Subcommand, clip, end_of, table, terminal_width
from fairlead.cli.subcommands.table import find
from fairlead.core.lenient import visible
from fairlead.export.content_blocks import count, tokens
from fairlead.export.page import check_target, write_page
from fairlead.export.usage_page import Totals, UsageReport, render_usage, usage_report
from fairlead.sessions.catalogue import SessionPlaces
from fairlead.wire.dialects import Program

#: How many rows a table has unless it is the only one.
_ROWS = 14
#: A terminal with fewer columns has no room for bars.
_NARROW = 64
_AGO = re.compile(r"([0-9]{1,5})([dw]?)")
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def usage(words: Sequence[str], program: Program) -> int:
    """Print what the sessions used, or write it as a page. Returns the exit code. Raises UsageError or ConfigError."""
    command = find("usage", program)
    assert command is not None
    options = command.parse(words)
    if options.words:
        raise command.usage_error(f"fairlead usage takes no words, got {options.words[0]!r}.")
    today = date.today()
    since = _since(command, options.text("since"), today)
    page = options.text("html")
    if page == "-" and options.has("json"):
        raise command.usage_error("The page and JSON cannot both go to standard output. Name a file: --html FILE.")
    if page not in (None, "-"):
        check_target(Path(page), force=options.has("force"))
    places = SessionPlaces.find(program.home, os.environ, options.text("session_dir"))
    report = usage_report((path for _, path in places.files(everywhere=True)), since)
    if page is not None:
        _write_page(page, report, today, since, force=options.has("force"))
    if options.has("json"):
        print_exact(msgspec.json.format(msgspec.json.encode(report.plain())).decode())
    elif page is None:
        _print(report, options.text("by"), since)
    elif page != "-":
        print_exact(page)
    if report.unreadable:
        complain(f"fairlead: {count(report.unreadable, 'file')} could not be read.")
    return 0


def _write_page(page: str, report: UsageReport, today: date, since: date | None, *, force: bool) -> None:
    """Write the page to a file, or with `-` to standard output."""
    rendered = render_usage(report, today, since)
    if page == "-":
        print_bytes(rendered)
    else:
        write_page(Path(page), rendered, force=force)


def _since(command: Subcommand, text: str | None, today: date) -> date | None:
    if text is None:
        return None
    if text == "today":
        return today
    try:
        if ago := _AGO.fullmatch(text):
            return today - timedelta(days=int(ago[1]) * (7 if ago[2] == "w" else 1))
        return date.fromisoformat(text)
    except (ValueError, OverflowError):
        raise command.usage_error(
            f"--since: expected a date such as 2026-01-31, a time such as 30d or 4w, or today, got {text!r}."
        ) from None


def _print(report: UsageReport, by: str | None, since: date | None) -> None:
    if not report.total.calls:
        print_text(f"No session has used anything{f' since {since}' if since else ' yet'}.")
        return
    days = [(str(day), totals) for day, totals in sorted(report.days.items())]
    groups = {
        "day": ("DAY", days, since is not None),
        "model": ("MODEL", report.rank(report.models), False),
        "project": ("PROJECT", report.rank(report.projects), False),
    }
    for name, (head, rows, whole) in groups.items():
        if by in (None, name):
            print_text(_table(report, head, rows, None if whole or by is not None else _ROWS) + "\n")
    total = report.total
    print_text(
        f"Total: {dollars(total.cost)} for {count(total.calls, 'model call')} in {count(report.sessions, 'session')}; "
        f"{tokens(total.input)} tokens in, {tokens(total.output)} out, {tokens(total.cache_read)} read from the cache."
    )


def _table(report: UsageReport, head: str, rows: list[tuple[str, Totals]], limit: int | None) -> str:
    newest_last = head == "DAY"
    shown = rows if limit is None else rows[-limit:] if newest_last else rows[:limit]
    largest = max(report.amount(totals) for _, totals in shown)
    cells = [
        [
            visible(name),
            dollars(totals.cost),
            tokens(totals.input),
            tokens(totals.output),
            tokens(totals.cache_read + totals.cache_write),
            f"{totals.calls:,}",
            _bar(report.amount(totals) / largest if largest else 0),
        ]
        for name, totals in shown
    ]
    heads = [head, "COST", "IN", "OUT", "CACHED", "CALLS", ""]
    shortened = end_of if head == "PROJECT" else clip
    text = table(heads, cells, right="COST IN OUT CACHED CALLS", flexible=0, shortened=shortened)
    if len(shown) < len(rows):
        left = len(rows) - len(shown)
        text += f"\n{left:,} {'earlier days' if newest_last else 'more'}; --by {head.lower()} shows all of them."
    return text


def _bar(share: float) -> str:
    """Return a bar of eighths of a cell, or of `#` where the output cannot show them; nothing in a narrow terminal."""
    columns = terminal_width()
    if columns < _NARROW:
        return ""
    width = 24 if columns >= 90 else 10
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        return "#" * max(1, round(share * width))
    whole, part = divmod(max(1, round(share * width * 8)), 8)
    return "█" * whole + (_EIGHTHS[part] if part else "")
