"""Commands of extensions written for pi: in which order hosts get their response, their questions and their runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.host import Frame
from tests.support.stage import Stage, says, stage

FLAGS = ["-e", "ext.ts"]
#: A command whose end, and the timer that sends what it sent, arrive together: it blocks its process until the timer is due.
LATE = """
export default function (pi: any) {
  pi.registerCommand("late", { handler: async () => {
    pi.sendUserMessage("go");
    const end = Date.now() + 60;
    while (Date.now() < end) {}
  } });
  pi.registerCommand("waiting", { handler: async (args: string, ctx: any) => {
    pi.sendUserMessage("go");
    const answers = await Promise.all([ctx.ui.confirm("one", "?"), ctx.ui.input("two")]);
    ctx.ui.notify(JSON.stringify(answers));
  } });
  pi.registerCommand("withdrawn", { handler: async (args: string, ctx: any) => {
    const stop = new AbortController();
    const asked = [ctx.ui.select("one", ["a"], { signal: stop.signal }), ctx.ui.confirm("two", "?", { signal: stop.signal })];
    setTimeout(() => stop.abort(), 30);
    ctx.ui.notify(JSON.stringify((await Promise.all(asked)).map((each: any) => each ?? null)));
  } });
}
"""


def place(host: Stage, frame: Frame) -> int:
    return next(index for index, each in enumerate(host.frames) if each is frame)


@pytest.mark.parametrize("dialect", ["pi", "omp"])
def test_the_response_of_a_command_comes_before_the_run_that_it_starts(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [says("a"), says("b"), says("c")], flags=FLAGS, files={"ext.ts": LATE}) as host:
        for round in range(3):
            since = host.mark()
            host.send({"id": f"c{round}", "type": "prompt", "message": "/late"})
            started = host.until("agent_start", since=since)
            assert place(host, host.response(f"c{round}")) < place(host, started)
            host.until("agent_end", since=since)


@pytest.mark.parametrize("dialect", ["pi", "omp"])
def test_messages_of_a_command_do_not_wait_for_answers_to_its_questions(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [says("a")], flags=FLAGS, files={"ext.ts": LATE}) as host:
        host.send({"id": "c", "type": "prompt", "message": "/waiting"})
        started = host.until("agent_start")
        one, two = (host.until("extension_ui_request", title=title) for title in ("one", "two"))
        assert place(host, one) < place(host, two) < place(host, started)
        if dialect == "omp":  # pi answers when the command has ended
            assert place(host, host.response("c")) < place(host, one)
        host.until("agent_end")
        host.send({"type": "extension_ui_response", "id": one["id"], "confirmed": True})
        host.send({"type": "extension_ui_response", "id": two["id"], "value": "x"})
        host.until("extension_ui_request", method="notify", message='[true,"x"]')
        assert host.response("c")["success"]


def test_questions_that_an_extension_withdraws_have_no_answer(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("a")], flags=FLAGS, files={"ext.ts": LATE}) as host:
        host.send({"id": "c", "type": "prompt", "message": "/withdrawn"})
        host.until("extension_ui_request", method="notify", message="[null,false]")


def test_a_command_without_a_description_is_listed_without_one(tmp_path: Path) -> None:
    source = """
export default function (pi: any) {
  pi.registerCommand("bare", { handler: async () => {} });
  pi.registerCommand("told", { description: "Says so", handler: async () => {} });
}
"""
    with stage(tmp_path, "pi", [], flags=FLAGS, files={"ext.ts": source}) as host:
        listed = {each["name"]: each for each in host.request("get_commands")["data"]["commands"]}
        assert "description" not in listed["bare"] and listed["told"]["description"] == "Says so"
