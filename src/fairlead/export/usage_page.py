"""`fairlead usage`: what all sessions used, by day, model and project, and `--html`, a page of that with plots as SVG.

Each model call counts once, also if forks repeat it. The page has no script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

from msgspec import Struct

from fairlead.core.lenient import scrub_text
from fairlead.errors import SessionError
from fairlead.export.content_blocks import count, dollars, tokens
from fairlead.export.page import GENERATOR, policy_hash
from fairlead.session.history.spending import Spending, spendings
from fairlead.stores.headers import header_in, refuse_endless

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
            "models": group("model", self.rank(self.models)),
            "projects": group("project", self.rank(self.projects)),
        }

    def rank(self, sums: dict[str, Totals]) -> list[tuple[str, Totals]]:
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


_ASSETS = Path(__file__).with_name("assets")
#: How many models have a colour. The others share one.
_COLOURS = 7
_OTHERS = "other models"
#: With more days than this, a bar is a week; with more weeks than this, a month.
_MOST_BARS = 92
_MOST_ROWS = 20
_WIDTH, _HEIGHT = 960, 260
_LEFT, _BOTTOM, _TOP = 64, 28, 12


def render_usage(report: UsageReport, today: date, since: date | None = None) -> bytes:
    """Return the page as UTF-8. `today` is the last day of the plot by day, `since` the first one, if it was given."""
    style = (_ASSETS / "usage.css").read_text("utf-8")
    policy = f"default-src 'none'; style-src {policy_hash(style)}; base-uri 'none'; form-action 'none'"
    body = _body(report, today, since) if report.total.calls else '<p class="none">No session has used anything yet.</p>\n'
    first = min(report.days, default=today)
    return scrub_text(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n{GENERATOR.decode()}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>Usage of fairlead</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>Usage</h1>\n<p class="period">{since or first} to {today}</p>\n{body}'
        f"<footer>{_footer(report)}</footer>\n</main>\n</body>\n</html>\n"
    ).encode()


def _footer(report: UsageReport) -> str:
    unread = f" {count(report.unreadable, 'file')} could not be read." if report.unreadable else ""
    return f"Days are those of this computer's time zone. Each model call counts once.{unread} Made by fairlead usage."


def _body(report: UsageReport, today: date, since: date | None) -> str:
    names = [name for name, _ in report.rank(report.models)]
    colours = {name: f"c{index}" if index < _COLOURS else "cx" for index, name in enumerate(names)}
    what = "Cost" if report.has_costs else "Tokens"
    return "".join(
        (
            _tiles(report),
            f"<section>\n<h2>{what} over time</h2>\n{_legend(names, colours)}",
            f"{_days(report, colours, today, since)}</section>\n",
            _ranking(f"{what} by model", "Model", report, report.rank(report.models), lambda name: colours[name]),
            _ranking(f"{what} by project", "Directory", report, report.rank(report.projects), lambda name: "c0"),
            _day_table(report),
        )
    )


def _tiles(report: UsageReport) -> str:
    total = report.total
    facts = [
        ("Cost", dollars(total.cost)),
        ("Tokens", tokens(total.tokens)),
        ("From the cache", f"{100 * total.cache_read / total.tokens:.0f} %" if total.tokens else "0 %"),
        ("Model calls", f"{total.calls:,}"),
        ("Sessions", f"{report.sessions:,}"),
        ("Days", f"{len(report.days):,}"),
    ]
    tiles = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>\n" for name, value in facts)
    return f'<dl class="tiles">\n{tiles}</dl>\n'


def _legend(names: Sequence[str], colours: dict[str, str]) -> str:
    shown = [(name, colours[name]) for name in names[:_COLOURS]]
    if len(names) > _COLOURS:
        shown.append((_OTHERS, "cx"))
    items = "".join(f'<li><span class="key {colour}"></span>{escape(name)}</li>' for name, colour in shown)
    return f'<ul class="legend">{items}</ul>\n'


# Bars over time


class _Bar:
    """What one bar stands for: a day, a week or a month. `parts` are the amounts by colour."""

    def __init__(self, label: str, short_label: str) -> None:
        self.label = label
        self.short_label = short_label
        self.parts: dict[str, float] = {}

    @property
    def amount(self) -> float:
        return sum(self.parts.values())


def _bars(report: UsageReport, colours: dict[str, str], today: date, since: date | None) -> list[_Bar]:
    first = since or min(report.days)
    first, last = min(first, min(report.days)), max(today, max(report.days))
    days = (last - first).days + 1

    def start(day: date) -> tuple[date, _Bar]:
        if days <= _MOST_BARS:
            return day, _Bar(f"{day:%a %d %b %Y}", f"{day:%d %b}")
        if days <= _MOST_BARS * 7:
            monday = day - timedelta(days=day.weekday())
            return monday, _Bar(f"week of {monday:%d %b %Y}", f"{monday:%d %b %y}")
        return day.replace(day=1), _Bar(f"{day:%B %Y}", f"{day:%b %Y}")

    bars: dict[date, _Bar] = {}
    for offset in range(days):
        bars.setdefault(*start(first + timedelta(days=offset)))
    for (day, model), totals in sorted(report.models_of_days.items()):
        parts = bars[start(day)[0]].parts
        parts[colours[model]] = parts.get(colours[model], 0) + report.amount(totals)
    return list(bars.values())


def _days(report: UsageReport, colours: dict[str, str], today: date, since: date | None) -> str:
    bars = _bars(report, colours, today, since)
    top, steps = _scale(max(bar.amount for bar in bars))
    plot_width, plot_height = _WIDTH - _LEFT, _HEIGHT - _TOP - _BOTTOM
    show = dollars if report.has_costs else tokens
    room = plot_width / len(bars)
    every = max(1, -(-len(bars) * 90 // plot_width))
    parts = list(_grid(top, steps, plot_height, show))
    for index, bar in enumerate(bars):
        x = _LEFT + room * (index + 0.5)
        if index % every == 0 and x < _WIDTH - 30:
            parts.append(f'<text class="axis" x="{x:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{bar.short_label}</text>')
        if bar.parts:
            rects = "".join(_rects(bar, x, min(48, room * 0.78), plot_height, top))
            parts.append(f"<g><title>{bar.label}: {show(bar.amount)}</title>{rects}</g>")
    largest = max(bars, key=lambda bar: bar.amount)
    period = f"{count(len(bars), 'bar')} from {bars[0].label} to {bars[-1].label}"
    words = f"{period}. The highest is {largest.label}: {show(largest.amount)}."
    return (
        f'<div class="wide"><svg viewBox="{_box(_WIDTH, _HEIGHT)}" role="img" aria-label="{escape(words)}">\n'
        + "\n".join(parts)
        + "\n</svg></div>\n"
    )


def _grid(top: float, steps: int, height: float, show: Callable[[float], str]) -> Iterator[str]:
    for step in range(steps + 1):
        y = _TOP + height * (1 - step / steps)
        words = _axis(top * step / steps, show)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="axis" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{words}</text>'


def _rects(bar: _Bar, x: float, width: float, plot_height: float, top: float) -> Iterator[str]:
    bottom = _TOP + plot_height
    for colour in sorted(bar.parts):
        height = plot_height * bar.parts[colour] / top
        bottom -= height
        place = f'x="{x - width / 2:.1f}" y="{bottom:.2f}" width="{width:.1f}" height="{height:.2f}"'
        yield f'<rect class="{colour}" {place}/>'


def _box(width: int, height: int) -> str:
    return f"0,0,{width},{height}"


def _scale(largest: float) -> tuple[float, int]:
    """Return a round number that is at least `largest`, and how many steps it has."""
    unit = 1.0
    while unit > largest:
        unit /= 10
    while unit * 10 <= largest:
        unit *= 10
    for factor, steps in ((1, 4), (2, 4), (2.5, 5), (4, 4), (5, 5), (8, 4), (10, 5)):
        if unit * factor >= largest:
            return unit * factor, steps
    return largest, 4


def _axis(amount: float, show: Callable[[float], str]) -> str:
    if show is tokens or not amount:
        return show(amount) if amount else "0"
    return f"${amount:,.0f}" if amount >= 10 else f"${amount:.2f}" if amount >= 0.1 else f"${amount:.4f}"


# Bars by rank, and tables


def _ranking(
    heading: str, column: str, report: UsageReport, ranked: list[tuple[str, Totals]], colour: Callable[[str], str]
) -> str:
    largest = max((report.amount(totals) for _, totals in ranked), default=0) or 1
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        f'<td class="bar"><svg viewBox="{_box(100, 10)}" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{colour(name)}" width="{max(0.6, 100 * report.amount(totals) / largest):.2f}" height="10"/></svg></td>'
        f"{_numbers(totals)}</tr>\n"
        for name, totals in ranked[:_MOST_ROWS]
    )
    more = f'<p class="none">and {len(ranked) - _MOST_ROWS:,} more</p>\n' if len(ranked) > _MOST_ROWS else ""
    return (
        f'<section>\n<h2>{heading}</h2>\n<div class="wide"><table>\n'
        f'<thead><tr><th scope="col">{column}</th><td></td>{_HEADS}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>\n{more}</section>\n"
    )


_HEADS = "".join(f'<th scope="col" class="n">{name}</th>' for name in ("Cost", "In", "Out", "Cached", "Calls"))


def _numbers(totals: Totals) -> str:
    cells = (dollars(totals.cost), tokens(totals.input), tokens(totals.output), tokens(totals.cache_read + totals.cache_write))
    return "".join(f'<td class="n">{cell}</td>' for cell in (*cells, f"{totals.calls:,}"))


def _day_table(report: UsageReport) -> str:
    rows = "".join(
        f'<tr><th scope="row">{day}</th>{_numbers(totals)}</tr>\n' for day, totals in sorted(report.days.items(), reverse=True)
    )
    return (
        "<section>\n<details><summary>All days as a table</summary>\n"
        f'<div class="wide"><table>\n<thead><tr><th scope="col">Day</th>{_HEADS}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>\n"
        "</details>\n</section>\n"
    )
