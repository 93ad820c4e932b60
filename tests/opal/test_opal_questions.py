"""What an Opal client is asked, and what comes of its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.opal import Client, opal, outcomes, said, types
from tests.support.stage import Turn, calls, says

ASK = ["--approval", "ask"]


def write(name: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": name, "content": name}


def ask(question: str, **rest: Any) -> Turn:
    return calls(("ask_user", {"question": question, **rest}))


def begin(client: Client, **params: Any) -> str:
    session = client.start(**params)
    client.send("agent/prompt", session_id=session, text="go")
    return session


def result_of(client: Client, session: str, tool: str) -> Frame:
    client.ended(session)
    return outcomes(client.events(session))[tool]


# A whole conversation


def test_a_client_approves_denies_and_answers(tmp_path: Path) -> None:
    turns = [
        calls(write("one.txt")),
        calls(write("two.txt")),
        calls(("ask_user", {"question": "Which colour?", "choices": ["red", "blue"]})),
        calls(("ask_user", {"question": "Why?"})),
        calls(write("three.txt")),
        calls(write("three.txt")),
        says("All done."),
    ]
    with opal(tmp_path, turns, flags=ASK) as client:
        cwd = client.host.around.cwd
        session = begin(client)
        actions = {"actions": ["allow", "deny", "allow_session", "allow_always"], "session_id": session}

        confirm = client.asked("client/confirm")
        assert confirm["id"] == "s2c-1"
        assert confirm["params"].items() >= actions.items()
        assert "one.txt" in confirm["params"]["message"]
        assert (confirm["params"]["tool"], confirm["params"]["args"]) == write("one.txt")
        assert confirm["params"]["call_id"] == client.events(session)[-1]["call_id"]
        assert confirm["params"]["diff"].startswith("--- /dev/null\n+++ ")
        assert not (cwd / "one.txt").exists(), "nothing happens before the answer"
        since = client.host.mark()
        client.answer(confirm, action="allow")

        confirm = client.asked("client/confirm", since=since)
        assert (cwd / "one.txt").exists()
        since = client.host.mark()
        client.answer(confirm, action="deny", reason="two is too many")

        question = client.asked("client/ask_user", since=since)
        assert not (cwd / "two.txt").exists()
        assert question["params"] == {"session_id": session, "question": "Which colour?", "choices": ["red", "blue"]}
        since = client.host.mark()
        client.answer(question, answer="blue")

        question = client.asked("client/ask_user", since=since)
        assert question["params"]["choices"] == []
        since = client.host.mark()
        client.answer(question, answer="it is calm")

        confirm = client.asked("client/confirm", since=since)
        assert confirm["id"] == "s2c-5"
        client.answer(confirm, action="allow_session")

        assert client.ended(session)["type"] == "agent_end"
        ends = [event["result"] for event in client.events(session) if event["type"] == "tool_execution_end"]
        assert [end["ok"] for end in ends] == [True, False, True, True, True, True]
        assert "the user refused it: two is too many." in ends[1]["error"]
        assert [end["output"] for end in ends[2:4]] == ["blue", "it is calm"]
        assert len([frame for frame in client.host.frames if frame.get("method") == "client/confirm"]) == 3
        assert said(client.events(session)) == "All done."


def test_a_question_comes_between_the_start_and_the_end_of_its_call(tmp_path: Path) -> None:
    with opal(tmp_path, [ask("Well?"), says("ok")]) as client:
        session = begin(client)
        question = client.asked("client/ask_user")
        before = client.events(session)
        assert before[-1]["type"] == "tool_execution_start"
        client.answer(question, answer="yes")
        assert result_of(client, session, "ask_user") == {"ok": True, "output": "yes"}


# Answers that are none


def test_an_error_fails_the_call_and_the_run_continues(tmp_path: Path) -> None:
    with opal(tmp_path, [ask("Well?"), says("Never mind.")]) as client:
        session = begin(client)
        client.answer_with_error(client.asked("client/ask_user"), "No handler")
        assert result_of(client, session, "ask_user") == {"ok": False, "error": "The user gave no answer."}
        assert client.ended(session)["type"] == "agent_end"


@pytest.mark.parametrize("answer", [{}, {"answer": 5}, {"action": "allow"}], ids=["empty", "wrong type", "wrong name"])
def test_an_unreadable_answer_counts_as_no_answer(tmp_path: Path, answer: Frame) -> None:
    with opal(tmp_path, [ask("Well?"), says("ok")]) as client:
        session = begin(client)
        client.answer(client.asked("client/ask_user"), **answer)
        assert not result_of(client, session, "ask_user")["ok"]


def test_an_unknown_action_does_not_approve(tmp_path: Path) -> None:
    with opal(tmp_path, [calls(write("a.txt")), says("ok")], flags=ASK) as client:
        session = begin(client)
        client.answer(client.asked("client/confirm"), action="sure")
        assert not result_of(client, session, "write_file")["ok"]
        assert not (client.host.around.cwd / "a.txt").exists()


def test_a_question_without_an_answer_in_time_does_not_approve(tmp_path: Path) -> None:
    settings = {"approvals": {"timeoutSeconds": 0.05}}
    with opal(tmp_path, [calls(write("a.txt")), says("ok")], flags=ASK, settings=settings) as client:
        session = begin(client)
        confirm = client.asked("client/confirm")
        assert not result_of(client, session, "write_file")["ok"]
        client.answer(confirm, action="allow")
        assert client.call("opal/ping") == {}
        assert not (client.host.around.cwd / "a.txt").exists()


def test_late_second_and_unknown_answers_are_dropped(tmp_path: Path) -> None:
    with opal(tmp_path, [ask("One?"), ask("Two?"), says("ok")]) as client:
        session = begin(client)
        first = client.asked("client/ask_user")
        since = client.host.mark()
        client.host.send({"jsonrpc": "2.0", "id": "s2c-99", "result": {"answer": "nobody"}})
        client.host.send({"jsonrpc": "2.0", "id": 1, "result": {"answer": "nobody"}})
        client.answer(first, answer="one")
        client.answer(first, answer="again")
        second = client.asked("client/ask_user", since=since)
        client.answer(first, answer="late")
        client.answer(second, answer="two")
        client.ended(session)
        ends = [event["result"]["output"] for event in client.events(session) if event["type"] == "tool_execution_end"]
        assert ends == ["one", "two"]


# Rules


def test_rules_for_commands_hold_for_the_shell_tool_and_allow_nothing_that_is_expanded(tmp_path: Path) -> None:
    hidden = ['echo "$\\\n(touch PWN)"', "echo hi {a['$(touch PWN)']}>/dev/null", "FO\\\nO=1 touch PWN"]
    lines = ["echo fine", *hidden, "rm x"]
    turns = [*(calls(("shell", {"command": line})) for line in lines), says("ok")]
    rules = [{"tool": "shell", "pattern": "echo *", "action": "allow"}]
    with opal(tmp_path, turns, flags=ASK, settings={"approvals": {"rules": rules}}) as client:
        session = begin(client)
        since = 0
        for line in [*hidden, "rm x"]:
            confirm = client.asked("client/confirm", since=since)
            assert line in confirm["params"]["message"]
            since = client.host.mark()
            client.answer(confirm, action="deny")
        client.ended(session)
        ends = [event["result"]["ok"] for event in client.events(session) if event["type"] == "tool_execution_end"]
        assert ends == [True, False, False, False, False]
        assert not (client.host.around.cwd / "PWN").exists()


def test_a_rule_that_denies_a_command_holds_for_the_shell_tool(tmp_path: Path) -> None:
    lines = ["echo fine", "touch PWN", "FO\\\nO=1 touch PWN", "echo 'touch PWN' | bash /dev/./stdin"]
    turns = [*(calls(("shell", {"command": line})) for line in lines), says("ok")]
    rules = [{"tool": "shell", "pattern": "touch *", "action": "deny"}]
    with opal(tmp_path, turns, settings={"approvals": {"rules": rules}}) as client:
        session = begin(client)
        client.ended(session)
        ends = [event["result"]["ok"] for event in client.events(session) if event["type"] == "tool_execution_end"]
        assert ends == [True, False, False, False]
        assert not (client.host.around.cwd / "PWN").exists()


# Ends


def test_an_abort_takes_a_question_back(tmp_path: Path) -> None:
    with opal(tmp_path, [ask("Well?"), says("later")]) as client:
        session = begin(client)
        question = client.asked("client/ask_user")
        client.call("agent/abort", session_id=session)
        assert client.ended(session)["type"] == "agent_abort"
        client.answer(question, answer="too late")
        assert client.is_idle(session)
        assert not result_of(client, session, "ask_user")["ok"]
        assert said(client.prompt(session, "go on")) == "later"


def test_a_client_that_leaves_ends_what_waits_for_it(tmp_path: Path) -> None:
    with opal(tmp_path, [ask("Well?"), says("Nobody is there.")], flags=["--on-eof", "finish"]) as client:
        begin(client)
        client.asked("client/ask_user")
        assert client.host.leave() == 0
        assert client.events()[-1]["type"] == "agent_end"


def test_two_sessions_can_ask_at_once(tmp_path: Path) -> None:
    with opal(tmp_path, [{"match": "go", **ask("Well?")}, says("ok")]) as client:
        one, two = begin(client), begin(client)
        questions: dict[str, Frame] = {}
        for session in (one, two):
            questions[session] = client.host.wait_for(
                lambda frame, session=session: (
                    frame.get("method") == "client/ask_user" and frame["params"]["session_id"] == session
                ),
                f"a question of {session}",
            )
        assert questions[one]["id"] != questions[two]["id"]
        client.answer(questions[two], answer="two")
        end = client.until("tool_execution_end", two)
        assert end["result"]["output"] == "two"
        assert not [event for event in client.events(one) if event["type"] == "tool_execution_end"]


# Extensions


EXTENSION = """
def setup(fl):
    @fl.register_tool
    async def greet() -> str:
        "Greet somebody."
        return "hello from the extension"

    @fl.register_command("name")
    async def ask_for_name(arguments, context):
        context.ui.notify("Look here")
        name = await context.ui.input("Your name?")
        sure = await context.ui.confirm("Sure?", "Really?")
        colour = await context.ui.select("Colour?", ["red", "blue"])
        context.ui.notify(f"{name} {sure} {colour}")

    @fl.register_command("pass")
    async def pass_on(arguments, context):
        fl.send_user_message(arguments)
        await context.wait_for_idle()
"""


def extend(client: Client) -> None:
    """Give the server an extension. It has looked for none yet."""
    folder = client.host.around.home / "extensions"
    folder.mkdir()
    (folder / "asking.py").write_text(EXTENSION)


def test_questions_of_extension_commands_do_not_block_other_requests(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        extend(client)
        session = client.start()
        assert client.call("agent/prompt", session_id=session, text="/name") == {"queued": False}
        question = client.asked("client/input")
        assert question["params"] == {"session_id": session, "prompt": "Your name?", "sensitive": False}
        assert said(client.prompt(client.start(), "meanwhile")) == "ok"
        client.answer(question, text="Ann")
        confirm = client.asked("client/confirm")
        assert (confirm["params"]["title"], confirm["params"]["message"]) == ("Sure?", "Really?")
        assert confirm["params"]["actions"] == ["allow", "deny"]
        client.answer(confirm, action="allow")
        select = client.asked("client/ask_user")
        assert (select["params"]["question"], select["params"]["choices"]) == ("Colour?", ["red", "blue"])
        client.answer(select, answer="red")
        client.ended(session)
        events = client.events(session)
        assert types(events) == ["message_applied", "agent_start", "status_update", "agent_end"]
        shown = [event["message"] for event in events if event["type"] == "status_update"]
        assert shown == ["Look here", "Ann True red"]


def test_a_command_that_begins_a_run_ends_with_it(tmp_path: Path) -> None:
    with opal(tmp_path, [says("Here.")]) as client:
        extend(client)
        session = client.start()
        events = client.prompt(session, "/pass on")
        assert types(events) == [
            "message_applied",
            "agent_start",
            "message_applied",
            "message_start",
            "message_delta",
            "usage_update",
            "agent_end",
        ]
        assert said(client.prompt(session, "again")) == "Here."
        assert [event["type"] for event in client.events(session)].count("agent_end") == 2


def test_an_abort_ends_a_command(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        extend(client)
        session = client.start()
        client.call("agent/prompt", session_id=session, text="/name")
        client.asked("client/input")
        client.call("agent/abort", session_id=session)
        assert client.ended(session)["type"] == "agent_abort"
        assert said(client.prompt(session, "hi")) == "ok"
        assert "agent_end" not in [event["type"] for event in client.events(session)][:-5]


def test_extension_tools_are_listed_with_opals_tools(tmp_path: Path) -> None:
    with opal(tmp_path, [calls(("greet", {})), says("ok")]) as client:
        extend(client)
        session = begin(client)
        assert result_of(client, session, "greet") == {"ok": True, "output": "hello from the extension"}
        tools = client.call("opal/config/get", session_id=session)["tools"]
        assert "greet" in tools["all"]
        assert "greet" in tools["enabled"]
        config = client.call("opal/config/set", session_id=session, tools=["shell"])
        assert config["tools"]["enabled"] == ["shell"]
        assert "greet" in config["tools"]["disabled"]
