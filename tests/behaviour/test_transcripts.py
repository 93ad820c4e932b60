"""The same scenarios that were played to the real programs, played to this one: the same frames come in the same order.

Where they do not, `tests/golden/differences.toml` says what differs and why. A difference that is not listed fails, and
so does a listed one that is gone.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.play import Repertoire
from tests.behaviour.scenarios.omp import OMP_RUNS
from tests.behaviour.scenarios.omp_extensions import OMP_EXTENSIONS
from tests.behaviour.scenarios.omp_host import OMP_TOOLS, OMP_URIS
from tests.behaviour.scenarios.omp_sessions import OMP_SESSIONS
from tests.behaviour.scenarios.omp_subagents import OMP_SUBAGENTS
from tests.behaviour.scenarios.omp_watch import OMP_WATCH
from tests.behaviour.scenarios.pi import PI_RUNS
from tests.behaviour.scenarios.pi_edges import PI_EDGES
from tests.behaviour.scenarios.pi_extensions import PI_EXTENSIONS
from tests.behaviour.scenarios.pi_later import PI_LATER
from tests.behaviour.scenarios.pi_retry import PI_RETRY
from tests.behaviour.scenarios.pi_sessions import PI_SESSIONS
from tests.support.transcript import Departure, departures, read_transcript, steps

GOLDEN = Path(__file__).parent.parent / "golden"
LISTED: dict[str, Any] = tomllib.loads((GOLDEN / "differences.toml").read_text("utf-8"))

OMP = OMP_RUNS | OMP_SESSIONS | OMP_TOOLS | OMP_URIS | OMP_SUBAGENTS | OMP_WATCH | OMP_EXTENSIONS

PI = PI_RUNS | PI_EDGES | PI_RETRY | PI_SESSIONS | PI_EXTENSIONS

#: The program that made the transcripts of a folder: which dialect plays its part, in which scenarios.
PROGRAMS: dict[str, tuple[str, Repertoire]] = {
    "pi-0.73": ("pi", PI),
    "pi-1.5": ("pi", PI | PI_LATER),
    "omp-13": ("omp", OMP),
    "omp-14": ("omp", OMP),
    "omp-18.2": ("omp", OMP),
    "omp-18.3": ("omp", OMP),
    "xcsh": ("xcsh", OMP),
}
#: The programs that tell what became of a prompt, and whether a run was aborted.
SIGNED = ("pi-1.5",)
TRANSCRIPTS = [f"{program}/{path.stem}" for program in PROGRAMS for path in sorted((GOLDEN / program).glob("*.jsonl"))]


def _shown_by(everywhere: dict[str, Any]) -> list[str]:
    """The transcripts in which an entry of `everywhere` is seen to occur, one of each program."""
    return [f"{program}/{everywhere.get('shown_by', 'simple_prompt')}" for program in everywhere["programs"]]


SHOWING = sorted({transcript for entry in LISTED["everywhere"] for transcript in _shown_by(entry)})


@pytest.mark.parametrize("transcript", TRANSCRIPTS)
def test_a_host_sees_what_it_saw_of_the_real_program(transcript: str, tmp_path: Path) -> None:
    program, name = transcript.split("/")
    dialect, repertoire = PROGRAMS[program]

    played = repertoire.play(name, dialect, tmp_path)

    assert played.exit_code == repertoire.scenarios[name].exit_code, played.stderr
    signs = program in SIGNED
    expected = steps(read_transcript(GOLDEN / f"{transcript}.jsonl"), _left_out(program, "theirs"), signs=signs)
    actual = steps(played.frames, _left_out(program, "ours"), signs=signs)
    found = Counter(departures(expected, actual))
    listed = _listed(transcript)
    if found != listed:
        pytest.fail(_report(transcript, found - listed, listed - found), pytrace=False)


@pytest.mark.parametrize("transcript", SHOWING)
def test_fields_left_out_everywhere_occur_in_a_transcript(transcript: str, tmp_path: Path) -> None:
    program, name = transcript.split("/")
    dialect, repertoire = PROGRAMS[program]

    ours = steps(repertoire.play(name, dialect, tmp_path).frames)

    theirs = steps(read_transcript(GOLDEN / f"{transcript}.jsonl"))
    for entry in LISTED["everywhere"]:
        if transcript in _shown_by(entry):
            assert set(entry.get("ours", ())) <= set(ours)
            assert set(entry.get("theirs", ())) <= set(theirs)


def test_every_listed_difference_belongs_to_a_transcript_and_has_a_reason() -> None:
    for entry in LISTED["difference"]:
        assert set(entry["scenarios"]) <= set(TRANSCRIPTS)
        assert entry["reason"].endswith(".")
        assert entry["expected"] != entry["actual"]


def test_every_scenario_has_a_transcript() -> None:
    for program, (_, repertoire) in PROGRAMS.items():
        played = {transcript.split("/")[1] for transcript in TRANSCRIPTS if PROGRAMS[transcript.split("/")[0]][1] is repertoire}
        assert played == set(repertoire.scenarios), program


def _left_out(program: str, side: str) -> list[str]:
    return [step for entry in LISTED["everywhere"] if program in entry["programs"] for step in entry.get(side, [])]


def _listed(transcript: str) -> Counter[Departure]:
    counted: Counter[Departure] = Counter()
    for entry in LISTED["difference"]:
        if transcript in entry["scenarios"]:
            counted[Departure(tuple(entry["expected"]), tuple(entry["actual"]))] += entry.get("times", 1)
    return counted


def _report(transcript: str, unlisted: Counter[Departure], gone: Counter[Departure]) -> str:
    lines = [f"{transcript} differs from its transcript"]
    for title, entries in (("Not listed:", unlisted), ("Listed, but gone:", gone)):
        if entries:
            lines.append(title)
        for departure, times in entries.items():
            lines += ["", "[[difference]]", f'scenarios = ["{transcript}"]']
            lines += [f"times = {times}"] if times > 1 else []
            lines += [f"expected = {_toml(departure.expected)}", f"actual = {_toml(departure.actual)}", 'reason = ""']
    return "\n".join(lines)


def _toml(sequence: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{step}"' for step in sequence) + "]"
