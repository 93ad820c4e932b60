"""What is printed for people does not control their terminal."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from tests.cli.command import Command, Scripted

from fairlead.core.lenient import visible

#: What a file name or a provider may bring: a colour, a title, a cursor that goes up, a C1 introducer, a reversed text.
EVIL = "\x1b[31mred\x1b]0;title\x07\x1b[1A\r\x9b2J\x7f\u202eevil\u2066"
SHOWN = r"\x1b[31mred\x1b]0;title\x07\x1b[1A\r\x9b2J\x7f\u202eevil\u2066"


def test_only_what_controls_a_terminal_is_escaped() -> None:
    assert visible(EVIL) == SHOWN
    assert visible("\x00\x08\x0b\x1f\x80\u061c\u200e\u200f\u2069") == r"\x00\x08\x0b\x1f\x80\u061c\u200e\u200f\u2069"
    assert visible(os.fsdecode(b"\x9b2J")) == r"\udc9b2J"
    plain = "line\n\ttab, Größe, 漢字, עברית, 👩‍👩‍👧, \\x1b"
    assert visible(plain) == plain


@pytest.mark.parametrize(
    "arguments", [["--no-such-flag-{}"], ["--model", "{}", "hi"], ["rules", "test", "{}", "--text", "x"], ["export", "{}"]]
)
def test_errors_about_what_was_given_are_visible(fairlead: Command, arguments: list[str]) -> None:
    done = fairlead(*[argument.format(EVIL) for argument in arguments])
    assert done.returncode != 0 and "evil" in done.stderr
    assert visible(done.stderr) == done.stderr


def test_warnings_about_a_projects_files_are_visible(fairlead: Command) -> None:
    folder = fairlead.around.cwd / ".fairlead" / "agents"
    folder.mkdir(parents=True)
    (folder / f"{EVIL.replace('/', '')}.md").write_text("---\nname: x\n")
    (folder.parent / "settings.json").write_text('{"approvals": {"mode": "\\u001b[2Jevil"}}')
    done = fairlead("--mode", "rpc", "--dialect", "omp", "--verbose")
    assert f"{SHOWN}.md: " in done.stderr and r'found "\x1b[2Jevil"' in done.stderr
    assert visible(done.stderr) == done.stderr


def test_errors_of_providers_are_visible(scripted: Scripted) -> None:
    done = scripted({"status": 400, "raw": EVIL})("--model", "fake/fake-1", "-p", "hi")
    assert done.returncode == 1 and SHOWN in done.stderr


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", rb"Gr\xf6\xdfe \u6f22"), ("latin-1", b"Gr\xf6\xdfe \\u6f22")])
def test_characters_that_the_encoding_lacks_are_escaped(fairlead: Command, encoding: str, shown: bytes) -> None:
    assert fairlead("-p", "Größe 漢").returncode == 0
    env = fairlead.env({"PYTHONIOENCODING": encoding})
    done = subprocess.run(fairlead.argv("sessions"), env=env, cwd=fairlead.around.cwd, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"") and shown in done.stdout


def test_file_names_keep_bytes_that_are_not_text(fairlead: Command) -> None:
    env = fairlead.env({"PYTHONIOENCODING": "utf-8:strict"})
    argv = fairlead.argv("usage", "--html", b"caf\xe9.html")
    done = subprocess.run(argv, env=env, cwd=fairlead.around.cwd, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"caf\xe9.html\n", b"")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="takes a terminal")
def test_lists_are_visible_on_a_terminal_and_exact_for_programs(fairlead: Command) -> None:
    trust = fairlead.around.home / "trust.json"
    trust.write_text(json.dumps({f"/{EVIL}": True}))
    assert (
        f"/{EVIL}\n"
        in subprocess.run(fairlead.argv("trust", "list"), env=fairlead.env(), capture_output=True, check=True).stdout.decode()
    )
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        subprocess.run(fairlead.argv("trust", "list"), env=fairlead.env(), stdout=theirs, check=True)
        os.close(theirs)
        assert terminal.read(10_000).decode() == f"trusted  /{SHOWN}\r\n"
