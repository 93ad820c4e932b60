"""Public programs that embed pi print the same when `pi` is this program."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from bench.contestants import Turn
from bench.peers import ACPX, CCUSAGE_PI, PI_073, PI_ACP, PYTHON_HOSTS
from tests.support.telegram_api import USER, TelegramApi
from tests.system.public_hosts import (
    BASH,
    EDIT,
    LIMIT,
    MISSING,
    READ,
    REFUSED,
    WRITE,
    AcpConversation,
    Compare,
    Conversation,
    Home,
)

pytestmark = pytest.mark.system

WORK = (BASH, {"text": "Done with **that**."}, WRITE, EDIT, READ, MISSING, {"text": "Edited."})
#: For an adapter that reads a file itself when a tool begins to change it: what it shows then is chance.
LOOK = (BASH, {"text": "Done with **that**."}, READ, MISSING, {"text": "Seen."})

#: A file that a tool waits for.
GO = "go"


def without_message_counts(text: str) -> str:
    """Return a text without counts of messages: pi counts its system prompt among them."""
    return re.sub(r"(?i)(messages[=:] ?)\d+", r"\1N", text)


# ACP


def test_an_acp_adapter_works_alike(compare: Compare) -> None:
    def drive(home: Home) -> str:
        with Conversation(home, PI_ACP.command()) as host:
            client = AcpConversation(host)
            client.request("initialize", protocolVersion=1, clientCapabilities={})
            session = client.open_session(home)
            (home.directory / "a.txt").write_text("one\nthree\n")
            for text in ("Use the shell.", "Look around.", "Fail."):
                client.prompt(session, text)
            for command in ("/session", "/name A name", "/steering", "/follow-up all", "/autocompact", "/compact", "/export"):
                client.prompt(session, command)
            client.request("session/set_config_option", sessionId=session, configId="model", value="scripted/two")
            client.request("session/set_mode", sessionId=session, modeId="low")
            client.request("session/list")
            for text in ("/greet Ann", "/skill:tidy now"):
                client.prompt(session, text)
            client.request("session/load", sessionId=session, cwd=str(home.directory), mcpServers=[])
            client.lines.append(f"exit {host.end()}")
        return without_message_counts("\n".join(client.lines))

    printed = compare(drive, *LOOK, REFUSED, {"text": "Last words."})
    assert printed.count("Done with **that**.") == 2  # heard and replayed
    assert '"title": "A name"' in printed
    assert "Say hello to Ann." in printed
    assert printed.endswith("exit 0")


def test_an_acp_adapter_cancels_alike(compare: Compare) -> None:
    def drive(home: Home) -> str:
        with Conversation(home, PI_ACP.command()) as host:
            client = AcpConversation(host)
            client.request("initialize", protocolVersion=1, clientCapabilities={})
            session = client.open_session(home)
            client.prompt(session, "Talk for long.", cancel_at="word")
            heard = len(client.lines)
            client.prompt(session, "Go on.")
            return "\n".join(client.lines[heard - 1 :])

    printed = compare(drive, {"text": "word " * 2000, "delayMs": 5}, {"text": "Better."})
    assert '"stopReason": "cancelled"' in printed
    assert "Better." in printed


def test_a_headless_acp_client_prints_alike(compare: Compare) -> None:
    acpx = [*ACPX.command(), "--agent", shlex.join(PI_ACP.command()), "--approve-all"]

    def drive(home: Home) -> str:
        printed = home.run(*acpx, "exec", "Use the shell.")
        # This program announces a tool call before its arguments are complete, as pi did until 0.73.
        return "".join(line for line in printed.splitlines(keepends=True) if "(pending)" not in line)

    printed = compare(drive, *WORK)
    assert "[tool] echo from the shell (completed)" in printed
    assert "Done with **that**." in printed
    assert printed.endswith("[done] end_turn\nexit 0\n")


# Clients in Python


def terminal(home: Home) -> Conversation:
    """Start a client that a person types into. It writes what it prints at once, also to a pipe."""
    return Conversation(home, [*PYTHON_HOSTS.command(), "-u", "-m", "pi_py_agent.cli", "--no-color"])


def test_a_terminal_client_prints_alike(compare: Compare) -> None:
    lines = (
        *("/model", "/models", "/state", "Use the shell.", "Write and edit.", "Fail."),
        *("/state", "/fork", "/fork 1", "/clone", "/new", "/state", "/nonsense"),
    )

    def drive(home: Home) -> str:
        with terminal(home) as host:
            printed = [host.read_until("\nYou: ")]
            for line in lines:
                host.write(line)
                printed.append(f"{line}\n{host.read_until(chr(10) + 'You: ')}")
            return without_message_counts("".join(printed) + f"exit {host.end()}")

    printed = compare(drive, *WORK, REFUSED)
    assert "│ from the shell" in printed
    assert "0) Use the shell." in printed
    assert printed.endswith("exit 0")


def test_a_terminal_client_steers_and_aborts_alike(compare: Compare) -> None:
    steps = (
        *(("Begin.", "→ bash"), ("Turn left.", "[steered: Turn left.]"), ("+Then rest.", "[queued follow-up: Then rest.]")),
        *((GO, "\nYou: "), ("Hang.", "→ bash"), ("/abort", "\nYou: "), ("Stumble.", "\nYou: "), ("/state", "\nYou: ")),
    )

    def drive(home: Home) -> str:
        with terminal(home) as host:
            printed = [host.read_until("\nYou: ")]
            for line, mark in steps:
                if line == GO:
                    (home.directory / GO).touch()
                else:
                    host.write(line)
                printed.append(host.read_until(mark))
            printed.append(f"exit {host.end()}")
        # Whether the client prints an answer before or after an event is chance.
        return re.sub(r"\[(aborting|steered: .*|queued follow-up: .*)\]\n", "", without_message_counts("".join(printed)))

    waiting: Turn = {"toolCalls": [{"name": "bash", "arguments": {"command": f"until [ -e {GO} ]; do sleep 0.02; done"}}]}
    hanging: Turn = {"toolCalls": [{"name": "bash", "arguments": {"command": "sleep 60"}}]}
    overloaded: Turn = {"status": 529, "error": "Overloaded"}
    printed = compare(drive, waiting, {"text": "Left."}, {"text": "Resting."}, hanging, overloaded, {"text": "Up again."})
    assert re.search(r"Left\..*Resting\..*\[retrying 1/3…\]\nUp again\.", printed, re.DOTALL)
    assert printed.endswith("exit 0")


def test_a_client_with_a_version_gate_sees_alike(compare: Compare) -> None:
    script = """
import asyncio, itertools, os
from pi_agent import AsyncPiClient, PiError

async def refusal(call):
    try:
        await call
    except PiError as error:
        return type(error).__name__, str(getattr(error, "error", error))

async def main():
    async with AsyncPiClient() as client:
        print(client.pi_version, client.compatibility, client.session)
        print(os.path.isdir(os.path.dirname(client.session.session_file)))
        result = await client.run("Use the shell.")
        print(result.text, result.stop_reason, result.usage)
        async with client.stream("Write and edit.") as events:
            print(*[kind for kind, _ in itertools.groupby([event.type async for event in events])])
        print(await refusal(client.run("Fail.")))
        state = await client.get_state()
        print([state[key] for key in ("thinkingLevel", "isStreaming", "isCompacting", "steeringMode", "autoCompactionEnabled")])
        stats = await client.get_session_stats()
        print({key: stats[key] for key in sorted(stats) if key != "totalMessages"})
        print(await client.get_available_thinking_levels(), (await client.set_model("scripted", "two"))["name"])
        print(await client.get_available_thinking_levels(), await client.cycle_thinking_level())
        cycled = await client.cycle_model()
        print(cycled["model"]["name"], cycled["thinkingLevel"], cycled["isScoped"])
        print([message["text"] for message in await client.get_fork_messages()], await client.clone())
        print(sorted((await client.bash("echo out; exit 3")).items()), await client.clear_queue())
        print(await client.get_last_assistant_text())
        entries = (await client.get_entries())["entries"]
        print([entry["type"] for entry in entries if entry.get("message", {}).get("role") != "system"])
        print([entry["thinkingLevel"] for entry in entries if entry["type"] == "thinking_level_change"])
        print(await refusal(client.compact()), await refusal(client.set_model("nobody", "nothing")))
        print(repr(client.stderr_tail))

asyncio.run(main())
"""
    printed = compare(lambda home: home.python(script), *WORK, REFUSED)
    assert printed.startswith("1.5.0 ")
    assert "agent_end agent_settled" in printed
    assert printed.endswith("''\nexit 0\n")


def test_a_client_that_knows_only_old_events_works_alike(compare: Compare) -> None:
    script = """
import dataclasses, itertools, re
from picable import PiClient
from picable.exceptions import PiCommandError

def show(value):
    print(dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value)

with PiClient(startup_timeout=45) as client:
    events = client.subscribe_events()
    for text in ("Use the shell.", "Write and edit.", "Fail."):
        client.prompt(text)
        kinds = []
        while not kinds or kinds[-1] != "AgentEndEvent":
            kinds.append(type(events.get(timeout=20)).__name__)
        print(*[kind for kind, _ in itertools.groupby(kinds) if kind != "ToolExecutionUpdateEvent"])
    show(client.get_session_stats())
    show(client.get_commands())
    show([message.text for message in client.get_fork_messages()])
    show(client.bash("echo out; exit 3"))
    show(client.cycle_model().model.id)
    show(client.cycle_thinking_level())
    show(client.get_state().thinking_level)
    show(client.new_session())
    show(client.get_last_assistant_text())
    try:
        client.set_model("nobody", "nothing")
    except PiCommandError as error:
        show(re.sub(r" \\(id=.*\\)", "", str(error)))
"""
    printed = compare(lambda home: home.python(script), *WORK, REFUSED, pi=PI_073, launcher="pi@0.73")
    assert "TurnEndEvent AgentEndEvent" in printed
    assert printed.endswith("Model not found: nobody/nothing\nexit 0\n")


# A chat bot


def test_a_telegram_bot_answers_alike(compare: Compare) -> None:
    said = (
        *("/models", "/new", "Use the shell.", "Write and edit.", "/last", "/name A name", "/sessions"),
        *("/model scripted/two", "/thinking low", "/model nobody/nothing", "/clone", "/export", "/compact", "/stop"),
        *("Fail.", "/last", "/new", "Go on."),
    )

    def drive(home: Home) -> str:
        printed: list[str] = []
        with TelegramApi() as telegram:
            (home.directory / "gateway.yaml").write_text(json.dumps(gateway_settings(home)))
            script = GATEWAY.replace("URL", telegram.url)
            with Conversation(home, [*PYTHON_HOSTS.command(), "-c", script]) as gateway:
                printed.append(telegram.sent(LIMIT))
                for text in said:
                    telegram.say(text)
                    # A prompt is answered by a message that the bot works, and by one with the result.
                    answers = [telegram.sent(LIMIT) for _ in range(1 if text.startswith("/") else 2)]
                    printed += [f"> {text}", *answers]
                printed += [f"exit {gateway.terminate()}"]
        return "\n".join(printed)

    printed = compare(drive, *WORK, REFUSED, {"text": "Last words."})
    assert "> Use the shell.\n⏳ Pi is working...\nDone with **that**." in printed
    assert "> /export\n[document] Exported session: " in printed
    assert printed.endswith("Last words.\nexit 0")


#: Starts the bot, which has no setting for the address of Telegram.
GATEWAY = """
import sys
from telegram.ext import ApplicationBuilder
from pi_gateway import cli

created = ApplicationBuilder.__init__

def create(builder):
    created(builder)
    builder.base_url("URL")

ApplicationBuilder.__init__ = create
sys.argv = ["pi-gateway", "run", "--config", "gateway.yaml"]
cli.main()
"""


def gateway_settings(home: Home) -> dict[str, object]:
    return {
        "telegram": {"botToken": "1:none", "allowedUserIds": [USER]},
        "pi": {"cwd": str(home.directory)},
        "databasePath": str(home.root / "gateway.sqlite3"),
        "logLevel": "ERROR",
    }


# A reader of sessions


def test_a_session_reader_counts_alike(compare: Compare) -> None:
    def drive(home: Home) -> str:
        runs = [
            home.run("pi", "-p", "Use the shell."),
            home.run("pi", "--mode", "text", "--continue", "-p", "Write and edit."),
            home.run("pi", "--model", "scripted/two", "--thinking", "low", "-p", "Think."),
        ]
        reports = [
            home.run(*CCUSAGE_PI.command(), report, "--offline", *form)
            for report in ("daily", "monthly", "session")
            for form in ([], ["--json"])
        ]
        return "".join([*runs, *reports])

    printed = compare(drive, *WORK, {"thinking": "Hm.", "text": "Thought.", "usage": {"input": 7, "output": 11, "cacheRead": 5}})
    assert "Done with **that**.\nexit 0\nEdited.\nexit 0\nThought.\nexit 0" in printed
    assert '"[pi] two"' in printed
