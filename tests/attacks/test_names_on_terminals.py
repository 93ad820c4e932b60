"""Names of files and values from files that would control a terminal, or add lines, in what subcommands print for people."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.support.surroundings import FAIRLEAD, Surroundings, surroundings

from fairlead.core.lenient import one_line, visible

EVIL = "\x1b]0;title\x07\x1b[2J\r\u202eevil\x9b\x7f"
FORGED = f"a\n  ok    all is well {EVIL}"


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    place = surroundings(tmp_path / FORGED, "http://127.0.0.1:9")
    folder = place.cwd / ".fairlead/extensions"
    folder.mkdir(parents=True)
    (folder / "x.py").write_text("")
    server = {"command": f"./{FORGED}", "args": [EVIL]}
    (place.cwd / ".mcp.json").write_text(json.dumps({"mcpServers": {FORGED: server}}))
    (place.cwd / FORGED).write_text("")
    (place.cwd / ".fairlead/settings.json").write_text(json.dumps({"packages": [f"./{FORGED}"], "extensions": [FORGED]}))
    return place


def said(around: Surroundings, *words: str) -> tuple[str, str]:
    done = subprocess.run([FAIRLEAD, *words], cwd=around.cwd, env=around.env, capture_output=True, check=False, timeout=60)
    return done.stdout.decode(), done.stderr.decode()


COMMANDS = (
    *(
        "trust show",
        "trust",
        "trust remove",
        "trust --never",
        "trust show missing",
        "doctor --offline",
        "list",
        "mcp",
        "mcp list",
    ),
    *("sessions", "models", "rules", "update"),
)


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("trusted", [False, True], ids=["", "trusted"])
def test_control_characters_are_escaped_in_output_for_people(around: Surroundings, words: str, trusted: bool) -> None:
    if trusted:
        said(around, "trust")
    shown, errors = said(around, *words.split())
    assert visible(shown + errors) == shown + errors
    assert "\n  ok    all is well" not in shown


def test_trust_shows_what_would_run_on_one_line_each(around: Surroundings) -> None:
    lines = said(around, "trust", "show")[0].splitlines()
    assert "  .mcp.json" in lines and f"  {one_line(FORGED)}" in lines and "  .fairlead/extensions" in lines


def test_the_list_of_decisions_has_one_line_for_each(around: Surroundings) -> None:
    said(around, "trust")
    assert len(said(around, "trust", "list")[0].split("\n")) == 2


def test_a_session_is_shown_with_one_line_for_each_of_its_facts(around: Surroundings) -> None:
    session = around.home / "sessions/there/2026-01-01T00-00-00-000Z_0123.jsonl"
    session.parent.mkdir(parents=True)
    time = "2026-01-01T00:00:00.000Z"
    entries = [
        {"type": "session", "version": 3, "id": "0123", "timestamp": time, "cwd": f"/there/{FORGED}"},
        {"type": "session_info", "id": "1", "parentId": None, "timestamp": time, "name": FORGED},
        {
            "type": "message",
            "id": "2",
            "parentId": "1",
            "timestamp": time,
            "message": {"role": "user", "content": FORGED, "timestamp": 1},
        },
    ]
    session.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    for words in (("sessions", "show", str(session)), ("sessions", "list", "--all")):
        shown, errors = said(around, *words)
        assert "evil" in shown, errors
        assert visible(shown) == shown and "\n  ok    all is well" not in shown
