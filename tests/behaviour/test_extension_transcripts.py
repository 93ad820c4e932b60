"""What extensions ask and show over the pipes, and how they fail, field by field as in the transcripts of the real programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.behaviour.test_transcripts import GOLDEN, PROGRAMS
from tests.support.host import Frame
from tests.support.transcript import read_transcript

#: Transcripts in which every frame of an extension's is the same as here.
SAME = [
    "pi-0.73/ext_ui",
    "pi-0.73/ext_errors_and_messages",
    "omp-13/extension_ui",
    "omp-14/extension_ui",
    "omp-18.2/extension_ui",
    "omp-18.3/extension_ui",
    "xcsh/extension_ui",
]


def of_extensions(frames: list[Frame]) -> list[Frame]:
    """What extensions asked, showed and failed with, without what is chance: ids, folders, who listens to a widget of its own."""
    kept: list[Frame] = []
    for frame in frames:
        if frame["type"] == "extension_ui_request" and frame.get("widgetKey") != "autoresearch":
            kept.append({name: value for name, value in frame.items() if name != "id"})
        elif frame["type"] == "extension_error":
            path = frame["extensionPath"]
            kept.append({**frame, "extensionPath": path if path.startswith("command:") else Path(path).stem})
    return kept


@pytest.mark.parametrize("transcript", SAME)
def test_extensions_emit_the_same_frames_as_in_the_real_program(transcript: str, tmp_path: Path) -> None:
    program, name = transcript.split("/")
    dialect, repertoire = PROGRAMS[program]

    ours = of_extensions(repertoire.play(name, dialect, tmp_path).frames)

    theirs = of_extensions(read_transcript(GOLDEN / f"{transcript}.jsonl"))
    for mine, their in zip(ours, theirs, strict=True):
        if "…<" in their.get("message", ""):  # the transcript has the beginning alone
            begin = their["message"].partition("…")[0]
            assert mine["message"].replace(" ", "").startswith(begin), mine
        else:
            assert mine == their
