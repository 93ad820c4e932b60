"""Names of pi's packages that have no meaning here."""

from __future__ import annotations

from pathlib import Path

from tests.extend.extended import extended

SOURCE = """
import * as sdk from "@earendil-works/pi-coding-agent";
import { calculateContextTokens, FooterComponent, InteractiveMode, main } from "@earendil-works/pi-coding-agent";
import { getLatestCompactionEntry } from "@earendil-works/pi-coding-agent";
import { Agent } from "@earendil-works/pi-agent-core";

class Mine extends (Agent as any) {}

export default function (pi: any) {
  pi.registerCommand("try", { handler: async () => {
    const said: any[] = [];
    const calls = [
      () => main([]), () => new (InteractiveMode as any)({}), () => (InteractiveMode as any).start(), () => (sdk as any).newer(),
      () => new Mine(),
    ];
    for (const call of calls) try { await call(); } catch (error: any) { said.push(error.message); }
    said.push(typeof new (FooterComponent as any)().render);
    said.push(calculateContextTokens({ input: 1, output: 2, cacheRead: 3, cacheWrite: 4 } as any), getLatestCompactionEntry([]));
    pi.appendEntry("said", said);
  } });
}
"""


async def test_a_missing_name_fails_with_its_name_when_it_is_used(tmp_path: Path) -> None:
    async with extended(tmp_path, SOURCE, suffix="ts") as it:
        await it.command("/try")
        assert it.errors == []
        assert it.notes("said") == [
            [
                "main() of pi-coding-agent is not available in fairlead.",
                "new InteractiveMode() of pi-coding-agent is not available in fairlead.",
                "InteractiveMode.start of pi-coding-agent is not available in fairlead.",
                "newer() of pi-coding-agent is not available in fairlead.",
                "new Agent() of pi-agent-core is not available in fairlead.",
                "function",
                10,
                None,
            ]
        ]
