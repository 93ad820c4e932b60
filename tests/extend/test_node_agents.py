"""Extensions start `process.argv[1]` with node to get another agent."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.extend.extended import notes, scripted

from fairlead import __version__
from fairlead.extend.node.remote import PI_VERSION
from fairlead.session.behaviour import Behaviour
from fairlead.testing import Turn
from fairlead.wire.dialects import program_named

BODY = """
  pi.registerCommand("look", { handler: async () => {
    const { spawnSync } = await import("node:child_process");
    const { existsSync, readFileSync, realpathSync } = await import("node:fs");
    const path = await import("node:path");
    let folder = path.dirname(realpathSync(process.argv[1]));
    while (!existsSync(path.join(folder, "package.json"))) folder = path.dirname(folder);
    const { name, version } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));
    const run = (...args: string[]) => spawnSync(process.execPath, [process.argv[1], ...args], { encoding: "utf8" });
    const agent = run("--mode", "json", "-p", "--no-session", "hello");
    note([process.argv.length, name, version, run("--version").stdout.trim(), agent.status, agent.stderr.includes("model")]);
  } });
"""


@pytest.mark.parametrize(
    ("name", "package", "version", "says"),
    [
        (None, "@earendil-works/pi-coding-agent", PI_VERSION, __version__),
        ("pi", "@earendil-works/pi-coding-agent", PI_VERSION, PI_VERSION),
        ("pi@0.73", "@mariozechner/pi-coding-agent", "0.73.1", ""),
        ("omp", "@oh-my-pi/pi-coding-agent", "18.3.4", "omp/18.3.4"),
    ],
)
async def test_an_extension_starts_an_agent_of_the_same_name(
    tmp_path: Path, name: str | None, package: str, version: str, says: str
) -> None:
    peer = None if name is None else program_named(name).home
    async with scripted(tmp_path, BODY, turns=[Turn(text="unused")], behaviour=Behaviour(peer_home=peer)) as it:
        await it.command("/look")
        assert it.errors == []
    # It has no model, says so, and does not end silently.
    assert notes(tmp_path) == [[2, package, version, says, 1, True]]


async def test_an_agent_of_an_isolated_one_is_isolated(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.json").write_text("{")
    body = BODY.replace("agent.stderr.includes", "!agent.stderr.includes('settings.json') && agent.stderr.includes")
    async with scripted(tmp_path, body, turns=[Turn(text="unused")], isolated=True) as it:
        await it.command("/look")
    assert notes(tmp_path)[0][-2:] == [1, True]
