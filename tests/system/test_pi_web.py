"""A web application that imports pi's SDK shows the same when the SDK is that of this program."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from bench.contestants import Turn
from bench.peers import PI_087, PI_WEB, node
from tests.system.public_hosts import BASH, EDIT, LIMIT, REFUSED, WRITE, Compare, Conversation, Home

pytestmark = pytest.mark.system

#: Events that say how far something is: how many there are is chance.
PROGRESS = ("message_update", "tool_execution_update", "connected", "heartbeat")
#: What pi sets in the user's settings and this program in the session, and what is about the text of the system prompt.
OF_PI = ("systemPrompt", "contextUsage", "sessionFile", "sessionId")


class Application:
    """The application while it runs: its HTTP interface, and the events of one session."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._events: Iterator[dict[str, Any]] = iter(())
        self.session = ""

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Return what the application answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Origin": self._address}
        request = urllib.request.Request(self._address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as refusal:
            return json.loads(refusal.read())

    def open_session(self, home: Home) -> dict[str, Any]:
        """Open a session in the working directory and return its state."""
        opened = self.request("POST", "/api/agent/new", {"cwd": str(home.directory), "type": "get_state"})
        self.session = opened["sessionId"]
        self._events = self._listen()
        next(self._events)  # The stream is open.
        return opened["data"]

    def command(self, kind: str, **arguments: object) -> Any:
        answer = self.request("POST", f"/api/agent/{self.session}", {"type": kind, **arguments})
        return answer.get("data", answer)

    def run(self, text: str) -> str:
        """Send a prompt, and return the kinds of events until it is done, with what was said."""
        lines = [f"> {text}", str(self.command("prompt", message=text))]
        events = list(itertools.takewhile(lambda event: event["type"] != "prompt_done", self._events))
        lines += [kind for kind, _ in itertools.groupby(event["type"] for event in events) if kind not in PROGRESS]
        lines += [format_message(event["message"]) for event in events if event["type"] == "message_end"]
        return "\n".join(lines)

    def _listen(self) -> Iterator[dict[str, Any]]:
        with urllib.request.urlopen(f"{self._address}/api/agent/{self.session}/events", timeout=LIMIT) as stream:
            yield {}
            for line in stream:
                if line.startswith(b"data:"):
                    yield json.loads(line.removeprefix(b"data:"))


def format_message(message: dict[str, Any]) -> str:
    content = [part.get("text") or part.get("arguments") or part for part in message["content"]]
    error = message.get("errorMessage", "").replace(" ", "")
    return f"{message['role']} {message.get('stopReason')} {message.get('isError')} {content} {error}"


@contextmanager
def application(home: Home) -> Generator[Application]:
    """Start the application with the SDK of the home's agent."""
    PI_WEB.command()
    modules, installed = home.root / "web" / "node_modules", PI_WEB.package_directory.parents[1]
    modules.mkdir(parents=True)
    for each in installed.iterdir():
        if each.name != "@agegr":
            (modules / each.name).symlink_to(each)
    (modules / "@earendil-works").symlink_to(home.sdk())
    own = modules / PI_WEB.package
    shutil.copytree(PI_WEB.package_directory, own)
    # Next.js would need its compiler for the settings in TypeScript.
    (own / "next.config.ts").unlink()
    (own / "next.config.js").write_text("module.exports = {};\n")
    next_js = [str(node()), str(modules / "next" / "dist" / "bin" / "next")]
    with Conversation(home, [*next_js, "start", str(own), "-p", "0", "-H", "127.0.0.1"]) as host:
        address = re.search(r"http://127\.0\.0\.1:\d+", host.read_until("Ready in"))
        assert address
        threading.Thread(target=read_to_end, args=[host]).start()
        yield Application(address[0])


def read_to_end(host: Conversation) -> None:
    """Read what a host prints, so that it can go on, until it ends."""
    with contextlib.suppress(AssertionError):
        while True:
            host.read_line()


def state_of(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in sorted(answer.items()) if key not in OF_PI}


def show(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def prompts_in(home: Home) -> list[str]:
    """Return the ids of the user's messages in the session's file."""
    [file] = home.root.glob(".pi/agent/sessions/*/*.jsonl")
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    return [entry["id"] for entry in entries if entry.get("message", {}).get("role") == "user"]


def drive_with(steps: Callable[[Home, Application], Generator[str]]) -> Callable[[Home], str]:
    def drive(home: Home) -> str:
        with application(home) as web:
            return "\n".join(steps(home, web))

    return drive


@pytest.mark.timeout(240)
def test_a_web_application_holds_conversations_alike(compare: Compare) -> None:
    def steps(home: Home, web: Application) -> Generator[str]:
        yield show(web.request("GET", f"/api/models?cwd={home.directory}"))
        yield show(web.request("GET", f"/api/skills?cwd={home.directory}"))
        yield show(state_of(web.open_session(home)))
        yield show(web.command("get_commands"))
        yield show([(tool["name"], tool["active"]) for tool in web.command("get_tools") if tool["active"]])
        for text in ("Use the shell.", "Write and edit.", "Fail."):
            yield web.run(text)
        yield show(web.command("set_model", provider="scripted", modelId="two"))
        yield show(web.command("set_thinking_level", level="low"))
        yield web.run("Think.")
        result = web.command("bash", command="echo out; exit 3")
        yield show([result["output"], result["exitCode"], result["cancelled"]])
        yield show(web.command("set_session_name", name="A name"))
        yield show(web.command("set_tools", toolNames=["read", "bash"]))
        yield show(web.command("reload"))
        yield show(sorted(tool["name"] for tool in web.command("get_tools") if tool["active"]))
        yield web.run("/greet Ann")
        yield show(web.command("navigate_tree", targetId=prompts_in(home)[1]))
        yield web.run("On a branch.")
        yield show(state_of(web.command("get_state")))
        found = web.request("GET", "/api/sessions/search?q=branch")["results"]
        yield show([(each["match"], each["session"]["firstMessage"]) for each in found])
        yield show(web.command("fork_branch", entryId=prompts_in(home)[0])["cancelled"])
        yield show(web.command("clone")["cancelled"])
        sessions = web.request("GET", "/api/sessions")["sessions"]
        yield show(sorted((each["firstMessage"], "parentSessionId" in each) for each in sessions))

    work: tuple[Turn, ...] = (BASH, {"text": "Done with **that**."}, WRITE, EDIT, {"text": "Edited."}, REFUSED)
    rest: tuple[Turn, ...] = ({"thinking": "Hm.", "text": "Thought."}, {"text": "Hello, Ann."}, {"text": "Here."})
    printed = compare(drive_with(steps), *work, *rest, pi=PI_087, launcher="pi@0.87")
    assert "Say hello to Ann." in printed
    assert "agent_settled" in printed


@pytest.mark.timeout(240)
def test_a_web_application_stores_keys_alike(compare: Compare) -> None:
    def steps(home: Home, web: Application) -> Generator[str]:
        yield show(web.request("POST", "/api/auth/api-key/anthropic", {"apiKey": "a key"}))
        yield (home.root / ".pi" / "agent" / "auth.json").read_text()
        providers = web.request("GET", "/api/auth/providers")["apiKeyProviders"]
        yield show([each["id"] for each in providers if each["configured"] and each["id"] != "scripted"])
        yield show(web.request("POST", "/api/auth/api-key/ghost", {"apiKey": "a key"}))
        yield show(web.request("DELETE", "/api/auth/api-key/anthropic"))
        yield (home.root / ".pi" / "agent" / "auth.json").read_text()

    printed = compare(drive_with(steps), {"text": "ok"}, pi=PI_087, launcher="pi@0.87")
    assert '"a key"' in printed
