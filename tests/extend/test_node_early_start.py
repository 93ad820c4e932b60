"""The Node process starts while the agent is being built: once, only if it is needed, and it ends if nothing uses it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from fairlead.config.home import Home
from fairlead.extend.node import program as node_program
from fairlead.extend.node.program import launch, launch_early

NODE = shutil.which("node") or "node"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment whose `node` says when it starts."""
    program = tmp_path / "bin" / "node"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho started >> "{tmp_path}/starts"\nexec "{NODE}" "$@"\n')
    program.chmod(0o755)
    (tmp_path / "home" / "extensions").mkdir(parents=True)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "FAIRLEAD_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}


def starts(root: Path) -> int:
    file = root / "starts"
    return len(file.read_text().splitlines()) if file.exists() else 0


def commands(root: Path, env: dict[str, str], *flags: str) -> list[str]:
    """The names of the commands of an agent."""
    command = [sys.executable, "-m", "fairlead", "--dialect", "pi", "--mode", "rpc", *flags]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=root) as agent:
        assert agent.stdin is not None and agent.stdout is not None
        agent.stdin.write(b'{"id": "c", "type": "get_commands"}\n')
        agent.stdin.flush()
        (answer,) = islice((frame for line in agent.stdout if (frame := json.loads(line)).get("id") == "c"), 1)
        agent.stdin.close()
        agent.stdout.read()
    return [each["name"] for each in answer["data"]["commands"]]


SCRIPT = 'export default (pi) => { pi.registerCommand("mine", { handler: async () => {} }); };'


@pytest.mark.parametrize("place", ["home/extensions/mine.ts", "mine.ts"])
def test_one_process_runs_the_extensions(tmp_path: Path, env: dict[str, str], place: str) -> None:
    (tmp_path / place).write_text(SCRIPT)
    assert "mine" in commands(tmp_path, env, *(["-e", "mine.ts"] if place == "mine.ts" else []))
    assert starts(tmp_path) == 1


def test_no_process_is_started_without_scripts(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "home" / "extensions" / "mine.py").write_text("def setup(fl): pass")
    (tmp_path / "home" / "extensions" / "their.ts.txt").write_text("")
    assert "mine" not in commands(tmp_path, env)
    (tmp_path / "home" / "extensions" / "mine.ts").write_text(SCRIPT)
    assert "mine" not in commands(tmp_path, env, "--no-extensions")
    subprocess.run(
        [sys.executable, "-m", "fairlead", "--help", "-e", "x.ts"], env=env, timeout=60, check=True, capture_output=True
    )
    assert starts(tmp_path) == 0


def test_a_process_that_was_started_for_something_else_is_not_used_and_ends(tmp_path: Path, env: dict[str, str]) -> None:
    home = Home.find(env)
    launch_early(home, env)
    [(start, early)] = node_program._early  # pyright: ignore[reportPrivateUsage]
    other = launch(start.node, start.cwd, {**env, "MORE": "1"}, start.cache)
    try:
        assert other.process.pid != early.process.pid
        assert early.process.wait(20) == 0
        launch_early(home, env)
        [(start, early)] = node_program._early  # pyright: ignore[reportPrivateUsage]
        taken = launch(start.node, start.cwd, env, start.cache)
        assert taken is early and node_program._early == []  # pyright: ignore[reportPrivateUsage]
    finally:
        for each in (other, early):
            each.inbox.close()
            each.outbox.close()
            assert each.process.wait(20) == 0


def test_a_node_that_cannot_be_started_is_reported_later(tmp_path: Path, env: dict[str, str]) -> None:
    launch_early(Home.find(env), {**env, "PATH": str(tmp_path)})
    while node_program._early:  # pyright: ignore[reportPrivateUsage]  # the extra `node` may be installed
        _, early = node_program._early.pop()  # pyright: ignore[reportPrivateUsage]
        early.inbox.close()
        early.outbox.close()
        early.process.wait(20)


def test_modules_that_are_loaded_before_the_agent_is_known_know_it_afterwards() -> None:
    shims = Path(node_program.__file__).parent / "runtime" / "shims"
    script = """
const sdk = await import("SHIMS/coding-agent.mjs");
const { configure } = await import("SHIMS/agent-facts.mjs");
configure({ version: "9", configDirName: ".mine", agentDir: "/home" });
console.log(JSON.stringify([sdk.VERSION, sdk.CONFIG_DIR_NAME, sdk.getAgentDir()]));
""".replace("SHIMS", shims.as_uri())
    done = subprocess.run([NODE, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout) == ["9", ".mine", "/home"]
