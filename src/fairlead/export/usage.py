"""What all sessions used, added up by day, model and project. Each model call counts once, also if forks repeat it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from fairlead.errors import SessionError
from fairlead.session.history.spending import Spending, spendings
from fairlead.stores.headers import header_in
from fairlead.stores.session_files import refuse_endless

_NO_MODEL = "unknown model"
_NO_PROJECT = "unknown directory"


class Totals(Struct):
    """The sum of some model calls."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0

    def add(self, spent: Spending) -> None:
        """Count one more call."""
        self.calls += 1
        self.input += spent.input
        self.output += spent.output
        self.cache_read += spent.cache_read
        self.cache_write += spent.cache_write
        self.cost += spent.cost

    @property
    def tokens(self) -> int:
        """All tokens, also those from the cache."""
        return self.input + self.output + self.cache_read + self.cache_write

    def plain(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        tokens = {"input": self.input, "output": self.output, "cacheRead": self.cache_read, "cacheWrite": self.cache_write}
        return {"calls": self.calls, "tokens": tokens, "cost": self.cost}


class UsageReport(Struct):
    """The sums, by day (of the local time zone), by model and by working directory; and by day and model together."""

    total: Totals
    days: dict[date, Totals]
    models: dict[str, Totals]
    projects: dict[str, Totals]
    models_of_days: dict[tuple[date, str], Totals]
    #: How many sessions used something, and how many files could not be read.
    sessions: int = 0
    unreadable: int = 0

    @property
    def has_costs(self) -> bool:
        """Whether anything had a price. Otherwise tokens are compared."""
        return self.total.cost > 0

    def amount(self, totals: Totals) -> float:
        """Return what bars show: the cost, or the tokens if nothing had a price."""
        return totals.cost if self.has_costs else totals.tokens

    def plain(self) -> dict[str, Any]:
        """Return it as a JSON object."""

        def group(name: str, sums: Iterable[tuple[Any, Totals]]) -> list[dict[str, Any]]:
            return [{name: str(key), **totals.plain()} for key, totals in sums]

        return {
            "total": self.total.plain(),
            "sessions": self.sessions,
            "unreadable": self.unreadable,
            "days": group("day", sorted(self.days.items())),
            "models": group("model", self.ranked(self.models)),
            "projects": group("project", self.ranked(self.projects)),
        }

    def ranked(self, sums: dict[str, Totals]) -> list[tuple[str, Totals]]:
        """Return sums, the largest first."""
        return sorted(sums.items(), key=lambda item: (-item[1].cost, -item[1].tokens, item[0]))


def usage_report(files: Iterable[Path], since: date | None = None) -> UsageReport:
    """Add up what session files say. Files that cannot be read are counted, and otherwise ignored.

    Args:
        files: Session files, in any order.
        since: The first day that counts.
    """
    report = UsageReport(Totals(), {}, {}, {}, {})
    opened: list[tuple[str, str, Path]] = []
    for path in files:
        try:
            refuse_endless(path, whole=True)
            with path.open("rb") as file:
                header = header_in(file.read(1 << 16))
        except (OSError, SessionError):
            header = None
        if header is None:
            report.unreadable += 1
        else:
            opened.append((header.timestamp, header.cwd, path))
    seen: set[tuple[str, str, float]] = set()
    for _, cwd, path in sorted(opened):  # a fork comes after the session whose calls it repeats
        try:
            data = path.read_bytes()
        except OSError:
            report.unreadable += 1
            continue
        counted = 0
        for spent in spendings(data):
            day = _local_day(spent.timestamp)
            if spent.key in seen or day is None or (since is not None and day < since):
                continue
            seen.add(spent.key)
            _count(report, spent, day, cwd or _NO_PROJECT)
            counted += 1
        report.sessions += counted > 0
    return report


def _count(report: UsageReport, spent: Spending, day: date, project: str) -> None:
    model = "/".join(part for part in (spent.provider, spent.model) if part) or _NO_MODEL
    report.total.add(spent)
    report.days.setdefault(day, Totals()).add(spent)
    report.models.setdefault(model, Totals()).add(spent)
    report.projects.setdefault(project, Totals()).add(spent)
    report.models_of_days.setdefault((day, model), Totals()).add(spent)


def _local_day(timestamp: str) -> date | None:
    try:
        return datetime.fromisoformat(timestamp).astimezone().date()
    except (ValueError, OverflowError):
        return None
