"""`fairlead usage`: what the sessions used."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Command
from tests.cli.terminal import Terminal


def write_session(command: Command, id: str, cwd: str, entries: list[dict[str, Any]], day: date) -> Path:
    folder = command.around.home / "sessions" / f"--{cwd[1:].replace('/', '-')}--"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{day}T00-00-00-000Z_{id}.jsonl"
    header = {"type": "session", "version": 3, "id": id, "timestamp": f"{day}T00:00:00.000Z", "cwd": cwd}
    path.write_text("\n".join(map(json.dumps, (header, *entries))) + "\n")
    return path


def call(id: str, day: date, cost: float, model: str = "claude") -> dict[str, Any]:
    usage = {"input": 1000, "output": 200, "cacheRead": 300, "cacheWrite": 0, "cost": {"total": cost}}
    message: dict[str, Any] = {
        "role": "assistant",
        "content": [],
        "provider": "anthropic",
        "model": model,
        "usage": usage,
        "timestamp": 1,
    }
    return {"type": "message", "id": id, "parentId": None, "timestamp": f"{day}T12:00:00.000Z", "message": message}


def usage(command: Command, *words: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    """Run the command in a place where the days are those of the timestamps."""
    return command("usage", *words, env={"TZ": "UTC", "PYTHONIOENCODING": encoding})


TODAY = datetime.now(UTC).date()


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let TODAY be right also if the tests began yesterday."""
    monkeypatch.setattr(sys.modules[__name__], "TODAY", datetime.now(UTC).date())


OLD = TODAY - timedelta(days=40)


def some_sessions(command: Command) -> None:
    first = [call("a", OLD, 0.5), call("b", TODAY, 0.25, "haiku")]
    # A summary has no model of its own; a sub-agent's calls are one entry of its parent.
    summary = {
        "type": "compaction",
        "id": "s",
        "timestamp": f"{TODAY}T12:00:00Z",
        "usage": {"input": 10, "cost": {"total": 0.125}},
    }
    spent = {"type": "usage", "id": "u", "timestamp": f"{TODAY}T12:00:00Z", "kind": "subagent", "provider": "p", "model": "small"}
    first += [summary, {**spent, "usage": {"input": 10, "cost": {"total": 1.0}}}]
    path = write_session(command, "one", "/code/app", first, OLD)
    write_session(command, "fork", "/code/fork", [*first, call("c", TODAY, 2)], TODAY)
    below = path.with_suffix("")
    below.mkdir()
    (below / "0-explore.jsonl").write_text(path.read_text().replace('"b"', '"of the sub-agent"'))


def test_each_call_counts_once_by_day_model_and_project(fairlead: Command) -> None:
    some_sessions(fairlead)
    report = json.loads(usage(fairlead, "--json").stdout)
    assert (report["total"]["cost"], report["total"]["calls"], report["sessions"]) == (3.875, 5, 2)
    assert {each["project"]: each["cost"] for each in report["projects"]} == {"/code/app": 1.875, "/code/fork": 2}
    costs = {each["model"]: each["cost"] for each in report["models"]}
    assert costs == {"anthropic/claude": 2.5, "p/small": 1.0, "anthropic/haiku": 0.375}
    assert [each["cost"] for each in report["days"]] == [0.5, 3.375]
    assert report["total"]["tokens"] == {"input": 3020, "output": 600, "cacheRead": 900, "cacheWrite": 0}


def test_a_table_has_bars_and_a_total(fairlead: Command) -> None:
    some_sessions(fairlead)
    done = usage(fairlead, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert lines["anthropic/claude"].endswith("█" * 24) and "$2.50" in lines["anthropic/claude"]
    assert (
        str(TODAY) in lines and "/code/fork" in lines and lines["Total:"].startswith("Total: $3.88 for 5 model calls in 2 sess")
    )
    only = usage(fairlead, "--by", "project").stdout
    assert "/code/fork" in only and "anthropic" not in only
    assert usage(fairlead, "--by", "project", encoding="ascii").stdout.count("#" * 24) == 1


def test_a_table_fits_into_a_narrow_terminal_and_shows_the_ends_of_folders(fairlead: Command) -> None:
    write_session(fairlead, "one", "/home/someone/code/clients/the-app", [call("a", TODAY, 0.5)], TODAY)
    terminal = Terminal(fairlead, "usage", "--by", "project", columns=50)
    code, shown = terminal.finish()
    table, _ = shown.replace("\r", "").split("\n\n")
    assert code == 0 and "█" not in table and "/the-app  " in table
    assert all(len(line) <= 50 for line in table.splitlines())


def test_days_before_a_date_are_left_out(fairlead: Command) -> None:
    some_sessions(fairlead)
    for since in ("today", str(TODAY), "30d", "4w"):
        assert json.loads(usage(fairlead, "--json", "--since", since).stdout)["total"]["cost"] == 3.375
    assert "expected a date such as" in usage(fairlead, "--since", "yesterday").stderr
    later = str(TODAY + timedelta(days=1))
    assert usage(fairlead, "--since", later).stdout == f"No session has used anything since {later}.\n"


def test_broken_files_are_counted_and_otherwise_ignored(fairlead: Command) -> None:
    some_sessions(fairlead)
    folder = fairlead.around.home / "sessions" / "--code-app--"
    (folder / "broken.jsonl").write_text('{"usage"\n')
    (folder / "folder.jsonl").mkdir()
    odd = [
        {"type": "message", "usage": 5},
        {"type": "message", "message": "usage"},
        {**call("z", TODAY, 7), "timestamp": "usage"},
    ]
    write_session(fairlead, "odd", "/odd", odd, TODAY)
    done = usage(fairlead, "--json")
    assert json.loads(done.stdout)["total"]["cost"] == 3.875
    assert done.stderr == "fairlead: 2 files could not be read.\n"


def test_a_page_with_plots_is_written(fairlead: Command) -> None:
    some_sessions(fairlead)
    done = usage(fairlead, "--html", "usage.html")
    assert (done.returncode, done.stdout) == (0, "usage.html\n")
    page = (fairlead.around.cwd / "usage.html").read_text()
    assert page.count("<svg") == 6 and "<script" not in page and "default-src 'none'" in page
    assert "anthropic/claude" in page and "/code/fork" in page and "$3.88" in page
    assert usage(fairlead, "--html", "usage.html").returncode == 0, "it may be replaced"
    (fairlead.around.cwd / "mine.html").write_text("<!doctype html>mine")
    done = usage(fairlead, "--html", "mine.html")
    assert done.returncode == 1 and "a file that fairlead did not make" in done.stderr
    assert usage(fairlead, "--html", "mine.html", "--force").returncode == 0


def test_a_page_goes_to_standard_output(fairlead: Command) -> None:
    some_sessions(fairlead)
    done = usage(fairlead, "--html", "-")
    assert done.returncode == 0 and done.stdout.startswith("<!doctype html>") and done.stdout.endswith("</html>\n")
    assert not (fairlead.around.cwd / "-").exists()
    done = usage(fairlead, "--html", "-", "--json")
    assert done.returncode == 2 and "cannot both go to standard output" in done.stderr


def test_with_json_standard_output_is_json_alone_also_beside_a_page(fairlead: Command) -> None:
    some_sessions(fairlead)
    done = usage(fairlead, "--html", "usage.html", "--json")
    assert json.loads(done.stdout)["total"]["cost"] == 3.875
    assert (fairlead.around.cwd / "usage.html").exists()


def test_without_sessions_there_is_nothing_to_show(fairlead: Command) -> None:
    assert usage(fairlead).stdout == "No session has used anything yet.\n"
    assert usage(fairlead, "--html", "empty.html").returncode == 0
