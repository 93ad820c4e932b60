"""Names of pi's packages that have no meaning here."""

from __future__ import annotations

from pathlib import Path

from tests.extend.extended import extended

SOURCE = """
import * as sdk from "@earendil-works/pi-coding-agent";
import { calculateContextTokens, createAgentSession, FooterComponent } from "@earendil-works/pi-coding-agent";
import { getLatestCompactionEntry } from "@earendil-works/pi-coding-agent";

export default function (pi: any) {
  pi.registerCommand("try", { handler: async () => {
    const said: any[] = [];
    for (const call of [() => createAgentSession({} as any), () => (sdk as any).compact()]) {
      try { await call(); } catch (error: any) { said.push(error.message); }
    }
    said.push(typeof new (FooterComponent as any)().render);
    said.push(calculateContextTokens({ input: 1, output: 2, cacheRead: 3, cacheWrite: 4 } as any), getLatestCompactionEntry([]));
    pi.appendEntry("said", said);
  } });
}
"""


async def test_functions_of_the_sdk_say_that_they_are_missing_and_classes_do_nothing(tmp_path: Path) -> None:
    async with extended(tmp_path, SOURCE, suffix="ts") as it:
        await it.command("/try")
        assert it.errors == []
        assert it.notes("said") == [
            [
                "createAgentSession() of pi-coding-agent is not available in fairlead.",
                "compact() of pi-coding-agent is not available in fairlead.",
                "function",
                10,
                None,
            ]
        ]
