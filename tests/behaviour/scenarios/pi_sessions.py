"""What hosts of pi do with sessions: other ones, forks and clones of one, and compactions, asked for and automatic."""

from __future__ import annotations

from tests.behaviour.play import Repertoire
from tests.support.stage import ENDLESS, Stage, says

PI_SESSIONS = Repertoire(reasoning="fake-1")
scenario = PI_SESSIONS.scenario

#: A compaction leaves little more than the last answer alone.
KEEP_LITTLE = {"compaction": {"keepRecentTokens": 100}}
#: About as many tokens as such a compaction keeps.
LONG_ANSWER = says("a " * 200)


# Sessions


@scenario(says("one"), says("two"), says("three"), says("four"))
def sessions(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("get_fork_messages")
    host.request("get_last_assistant_text")
    host.prompt("first prompt")
    host.prompt("second prompt")
    first_file = host.request("get_state")["data"]["sessionFile"]
    host.request("get_last_assistant_text")
    for name in ("  my name  ", "", "   "):
        host.request("set_session_name", name=name)
    host.request("get_state")
    host.request("get_session_stats")
    first, second = (message["entryId"] for message in host.request("get_fork_messages")["data"]["messages"])
    host.request("get_entries")
    host.request("get_tree")

    host.request("fork", entryId=second)
    host.request("get_state")
    host.request("get_messages")
    host.prompt("forked prompt")
    host.request("get_session_stats")
    host.request("clone")
    host.request("get_state")
    host.request("new_session")
    host.request("get_state")
    host.request("new_session", parentSession=first_file)
    host.prompt("in child")
    host.request("get_state")

    host.request("switch_session", sessionPath=first_file)
    host.request("get_state")
    host.request("get_messages")
    host.request("export_html")
    host.request("export_html", outputPath=str(host.around.cwd / "out.html"))
    host.request("fork", entryId=first)
    host.request("get_state")


@scenario(ENDLESS, says("after"))
def new_session_while_streaming(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.send({"id": "p1", "type": "prompt", "message": "slow"})
    host.update("text_delta")
    host.request("new_session")
    host.request("get_state")
    host.request("get_messages")
    host.prompt("fresh")


# Compactions


@scenario(
    says("first answer " * 50),
    says("second answer " * 50),
    says("third answer"),
    says("## Goal\nSummary text"),
    settings=KEEP_LITTLE,
)
def compact_manual(host: Stage) -> None:
    host.request("compact")
    host.prompt("one " * 50)
    host.prompt("two " * 50)
    host.prompt("three")
    host.request("get_session_stats")
    host.request("compact", customInstructions="Focus on code")
    host.request("get_messages")
    host.request("get_session_stats")
    host.request("compact")
    host.request("get_state")
    host.prompt("after compact")
    host.request("get_session_stats")


@scenario(
    LONG_ANSWER,
    says("big turn " * 50, usage={"input": 190_000, "output": 500}),
    says("## Goal\nauto summary"),
    says("continuing"),
    settings=KEEP_LITTLE,
)
def auto_compaction_threshold(host: Stage) -> None:
    host.prompt("one " * 20)
    host.prompt("two")
    host.request("get_messages")
    host.request("get_session_stats")
    host.prompt("three")
    host.request("get_session_stats")


@scenario(
    LONG_ANSWER,
    {"status": 400, "error": "prompt is too long: 210000 tokens > 200000 maximum"},
    says("## Goal\noverflow summary"),
    says("recovered answer"),
    settings=KEEP_LITTLE,
)
def auto_compaction_overflow(host: Stage) -> None:
    host.prompt("one " * 20)
    host.prompt("two", id="p2")
    host.request("get_messages")


@scenario(
    LONG_ANSWER,
    says("big", usage={"input": 190_000, "output": 5}),
    {"status": 400, "error": "summarizer broke"},
    settings=KEEP_LITTLE,
)
def auto_compaction_fails(host: Stage) -> None:
    host.prompt("one " * 20)
    host.prompt("two")
    host.request("get_state")
