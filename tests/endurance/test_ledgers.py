"""What the check of killed agents takes for certain, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.ledger import Ledgers

PROMPT = {"id": "1", "type": "prompt", "message": "go"}
ABORT = {"id": "2", "type": "abort"}
ACKNOWLEDGED: dict[str, Any] = {"type": "response", "id": "1", "command": "prompt", "success": True}
REFUSED: dict[str, Any] = {**ACKNOWLEDGED, "success": False, "error": "Aborted."}
BEGUN: dict[str, Any] = {"type": "agent_start"}


@pytest.mark.parametrize(
    ("sent", "heard", "accepted"),
    [
        ([PROMPT], [ACKNOWLEDGED], ["go"]),
        ([PROMPT, ABORT], [ACKNOWLEDGED, BEGUN], ["go"]),
        ([PROMPT, ABORT], [ACKNOWLEDGED, REFUSED], []),
        ([PROMPT, ABORT], [ACKNOWLEDGED], []),  # the agent may have been killed before it could refuse the prompt
    ],
)
def test_an_aborted_prompt_is_accepted_once_something_follows_its_acknowledgement(
    tmp_path: Path, sent: list[dict[str, Any]], heard: list[dict[str, Any]], accepted: list[str]
) -> None:
    ledgers = Ledgers(tmp_path / "first.jsonl")
    ledgers.learn(sent, heard, late_refusals=True)
    assert ledgers.present.said == accepted
