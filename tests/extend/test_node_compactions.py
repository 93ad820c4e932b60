"""Compactions, as extensions written for pi see and change them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.extend.extended import calling, notes, scripted

from fairlead.testing import Turn

USAGE = {
    **{"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15},
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.5},
}


async def test_a_handler_knows_the_files_and_messages_and_reports_its_usage(tmp_path: Path) -> None:
    body = f"""
  pi.on("session_before_compact", ({{ preparation }}) => {{
    const {{ fileOps, messagesToSummarize, settings }} = preparation;
    note([[...fileOps.read], fileOps.written.has("b.txt"), fileOps.edited.size]);
    note([...new Set(messagesToSummarize.map((each) => each.customType ?? each.role))]);
    note([settings.enabled, settings.reserveTokens, settings.keepRecentTokens]);
    const {{ firstKeptEntryId, tokensBefore }} = preparation;
    return {{ compaction: {{ summary: "mine", firstKeptEntryId, tokensBefore, usage: {json.dumps(USAGE)} }} }};
  }});
  pi.on("session_compact", ({{ compactionEntry, fromExtension }}) => {{
    note([compactionEntry.summary, compactionEntry.usage.cost.total, fromExtension]);
  }});
  pi.registerCommand("hint", {{ handler: async () => {{
    pi.sendMessage({{ customType: "hint", content: "a hint", display: true }});
  }} }});
"""
    turns = [calling("write", path="b.txt", content="b"), calling("read", path="b.txt"), *[Turn(text="ok " * 50)] * 4]
    settings = json.dumps({"compaction": {"keepRecentTokens": 10}})
    async with scripted(tmp_path, body, turns=turns, settings=settings) as it:
        await it.command("/hint")
        await it.agent.ask("one")
        await it.agent.ask("two")
        await it.agent.session.compact()
        assert it.errors == []
    assert notes(tmp_path) == [
        [["b.txt"], True, 0],
        ["hint", "user", "assistant", "toolResult"],
        [True, 16384, 10],
        ["mine", 0.5, True],
    ]
