"""The extension on the page about extensions of pi is the example, and does what the page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.testing import MakeProcess

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "pi_extension.ts"
CALLS = {
    "toolCalls": [
        {"name": "bash", "arguments": {"command": "rm -f notes.txt"}},
        {"name": "word_count", "arguments": {"text": "one two three"}},
    ]
}


def test_the_page_shows_the_example() -> None:
    program = EXAMPLE.read_text().partition("\n")[2]
    assert f"```ts\n{program}```" in (ROOT / "docs" / "pi-extensions.md").read_text()


@pytest.mark.parametrize("allowed", [True, False])
def test_the_gate_asks_and_the_tool_counts(fairlead_process: MakeProcess, allowed: bool) -> None:
    agent = fairlead_process(CALLS, "Done.", flags=["-e", str(EXAMPLE)])
    (agent.cwd / "notes.txt").write_text("Lamps.")
    with agent.sync_client() as client:
        client.on_question(lambda request: allowed)
        result = client.ask("Delete the notes.")
    assert (agent.cwd / "notes.txt").exists() is not allowed
    results = [message for message in result.messages if message.role == "toolResult"]
    assert ("Deleting needs permission." in json.dumps(str(results[0]))) is not allowed
    assert "text='3'" in str(results[1])
