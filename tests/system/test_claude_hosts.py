"""Public hosts of Claude Code start this program instead: an agent for editors that speak ACP, and a provider for the AI SDK."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench import peers
from tests.claude.host import environment
from tests.support.stage import Turn, calls, says
from tests.system.test_claude_sdk import HERE, LIMIT, host, launcher

from fairlead.testing import ProviderServer

pytestmark = pytest.mark.system


class Editor:
    """An editor with an agent that speaks ACP."""

    def __init__(self, process: subprocess.Popen[str], decide: Callable[[dict[str, Any]], str]) -> None:
        self._process = process
        self._decide = decide
        self._count = 0
        #: The updates of the session so far.
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> Any:
        """Send a request and return its result. Questions of the agent are answered meanwhile."""
        self._count += 1
        self._send(id=self._count, method=method, params=params)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            frame = json.loads(line)
            if "method" not in frame and frame.get("id") == self._count:
                assert "error" not in frame, frame
                return frame["result"]
            self._take(frame)
        raise AssertionError(f"the agent has left before it answered {method}")

    def _take(self, frame: dict[str, Any]) -> None:
        if frame["method"] == "session/update":
            self.updates.append(frame["params"]["update"])
        elif frame["method"] == "session/request_permission":
            self.asked.append(frame["params"]["toolCall"])
            kind = self._decide(frame["params"]["toolCall"])
            chosen = next(each["optionId"] for each in frame["params"]["options"] if each["kind"] == kind)
            self._send(id=frame["id"], result={"outcome": {"outcome": "selected", "optionId": chosen}})

    def _send(self, **frame: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
        self._process.stdin.flush()

    def texts(self) -> str:
        return "".join(each["content"]["text"] for each in self.updates if each["sessionUpdate"] == "agent_message_chunk")


@contextmanager
def editor(work: Path, provider: ProviderServer, decide: Callable[[dict[str, Any]], str]) -> Generator[Editor]:
    for folder in ("home", "cwd", "tmp"):
        (work / folder).mkdir(exist_ok=True)
    [modules] = peers.CLAUDE_ACP.command()
    env = {
        **environment(work, provider),
        "PATH": f"{peers.node().parent}:{os.environ['PATH']}",
        "CLAUDE_CODE_EXECUTABLE": str(launcher(work)),
    }
    argv = [str(peers.node()), f"{modules}/{peers.CLAUDE_ACP.package}/dist/index.js"]
    with (
        (work / "stderr").open("w") as errors,
        subprocess.Popen(
            argv, cwd=work / "cwd", env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            yield Editor(process, decide)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()


def test_an_editor_works_with_the_agent_of_acp(tmp_path: Path) -> None:
    target = str(tmp_path / "cwd/w.txt")
    turns: list[Turn] = [
        calls(("Bash", {"command": "mkdir a"})),
        calls(("Write", {"file_path": target, "content": "x"})),
        says("done, friend"),
        says("second"),
        says("resumed"),
    ]

    def decide(call: dict[str, Any]) -> str:
        return "allow_once" if call["name"] == "Write" else "reject_once"

    with ProviderServer(turns) as provider:
        with editor(tmp_path, provider, decide) as agent:
            assert agent.call("initialize", protocolVersion=1, clientCapabilities={})["protocolVersion"] == 1
            session = agent.call("session/new", cwd=str(tmp_path / "cwd"), mcpServers=[])["sessionId"]
            prompt = [{"type": "text", "text": "go"}]
            assert agent.call("session/prompt", sessionId=session, prompt=prompt)["stopReason"] == "end_turn"
            assert agent.call("session/prompt", sessionId=session, prompt=prompt)["stopReason"] == "end_turn"
            commands = next(each for each in agent.updates if each["sessionUpdate"] == "available_commands_update")
        assert [call["name"] for call in agent.asked] == ["Bash", "Write"]
        assert agent.texts() == "done, friendsecond"
        assert "compact" in [each["name"] for each in commands["availableCommands"]]
        assert not (tmp_path / "cwd/a").exists() and Path(target).read_text() == "x"
        contents: list[Any] = [each.get("content") for each in agent.updates]
        assert [{"type": "diff", "path": target, "oldText": None, "newText": "x"}] in contents
        with editor(tmp_path, provider, decide) as agent:
            agent.call("initialize", protocolVersion=1, clientCapabilities={})
            agent.call("session/load", sessionId=session, cwd=str(tmp_path / "cwd"), mcpServers=[])
            assert "second" in agent.texts()
            assert agent.call("session/prompt", sessionId=session, prompt=prompt)["stopReason"] == "end_turn"
            assert agent.texts().endswith("resumed")
        assert "done, friend" in json.dumps(provider.requests[-1].body["messages"])


def test_the_ai_sdk_works_with_its_provider(tmp_path: Path) -> None:
    turns: list[Turn] = [
        calls(("Bash", {"command": "mkdir a"})),
        says("made"),
        says("Hello there, friend."),
        says("again"),
        calls(("StructuredOutput", {"answer": 42})),
    ]
    command = [str(peers.node()), str(HERE / "claude_ai_sdk_host.mjs"), *peers.CLAUDE_AI_SDK.command()]
    with ProviderServer(turns) as provider:
        seen = host(tmp_path, command, provider)
    assert seen == {
        "text": "made",
        "usage": True,
        "pieces": "Hello there, friend.",
        "reason": "stop",
        "resumed": ["again", True],
        "object": {"answer": 42},
    }
    assert (tmp_path / "cwd/a").is_dir()
