"""What hosts of omp and of xcsh do with sessions: branches, compactions; and what they see of a provider that fails."""

from __future__ import annotations

from tests.behaviour.play import Repertoire
from tests.behaviour.scenarios.pi_retry import OVERLOADED
from tests.support.stage import Stage, says

OMP_SESSIONS = Repertoire(reasoning="fake-2")
scenario = OMP_SESSIONS.scenario


# Branches


@scenario(says("reply one"), says("reply two"), says("reply three"), says("r4"))
def branch(host: Stage) -> None:
    host.request("get_branch_messages", id="b0")
    host.prompt("question 1", id="p1")
    host.prompt("question 2", id="p2")
    _, second = host.request("get_branch_messages", id="b1")["data"]["messages"]
    host.request("get_state", id="s0")
    host.request("branch", id="br", entryId=second["entryId"])
    host.request("get_state", id="s1")
    host.request("get_messages", id="m1")
    host.request("get_branch_messages", id="b2")
    host.prompt("question 2b", id="p3")
    host.request("branch", id="brx", entryId="nope")
    host.request("branch", id="bry")
    first = host.request("get_branch_messages", id="b3")["data"]["messages"][0]
    host.request("branch", id="br0", entryId=first["entryId"])
    host.request("get_state", id="s2")


@scenario(says("ok"), flags=["--no-session"])
def no_session(host: Stage) -> None:
    host.request("get_state", id="s")
    host.prompt("hi", id="p1")
    host.request("get_branch_messages", id="b")
    host.request("export_html", id="e")


@scenario(says("reply one"), says("reply two"), says("three"), name="new_183")
def entries_filters_and_folders(host: Stage) -> None:
    """Commands that omp has since 18.3."""
    host.request("get_available_thinking_levels", id="tl")
    host.request("set_model", id="sm", provider="fake", modelId="fake-2")
    host.request("get_available_thinking_levels", id="tl2")
    host.prompt("q1", id="p1")
    first = host.request("get_entries", id="ge")["data"]["entries"][0]
    host.request("get_entries", id="ge2", since=first["id"])
    host.request("get_entries", id="ge3", since="nope")
    host.request("get_tree", id="gt")
    host.request("set_event_filter", id="ef", events=["agent_end", "turn_end"])
    host.send({"id": "p2", "type": "prompt", "message": "q2"})
    host.until("session_settled", nth=2)
    for number, events in enumerate(("x", None, [], None)):
        host.request("set_event_filter", id=f"ef{number + 2}", events=events)
    folder = str(host.around.root / "sessdir")
    host.request("open_session", id="os", sessionDir=folder)
    host.request("get_state", id="gs")
    host.prompt("q3", id="p3")
    host.request("open_session", id="os2", sessionDir=folder)
    host.request("open_session", id="os3")
    host.send({"id": "u", "type": "no_such"})
    host.until("response", command="no_such")


# Compactions


@scenario(
    says("reply one " * 50),
    says("reply two " * 50),
    says("SUMMARY OF THINGS"),
    says("SHORT SUMMARY"),
    says("after compaction"),
    settings={"compaction": {"keepRecentTokens": 10}},
)
def compact(host: Stage) -> None:
    host.request("compact", id="c0")
    for number in (1, 2):
        host.prompt(f"question {number} " + "word " * 200, id=f"p{number}")
    host.request("compact", id="c1", customInstructions="focus on X")
    host.request("get_state", id="s")
    host.request("get_messages", id="m")
    host.request("compact", id="c2")
    host.prompt("next", id="p3")


@scenario(
    says("reply one " * 40),
    says("reply two " * 40, usage={"input": 19_000, "output": 500}),
    says("SUMMARY TEXT"),
    says("SHORT"),
    says("after"),
    model="fake/fake-small",
    settings={"compaction": {"keepRecentTokens": 10, "reserveTokens": 2_000}},
)
def auto_compact(host: Stage) -> None:
    for number in (1, 2):
        host.prompt(f"question {number} " + "word " * 100, id=f"p{number}")
    host.request("get_state", id="s")
    host.request("get_messages", id="m")
    host.prompt("next", id="p3")


# Failing providers


@scenario(
    OVERLOADED,
    OVERLOADED,
    says("recovered"),
    {"status": 400, "error": "bad request here"},
    says("fine"),
    OVERLOADED,
    settings={"retry": {"baseDelayMs": 1}},
)
def auto_retry(host: Stage) -> None:
    host.prompt("retry me", id="p1")
    host.prompt("bad", id="p2")
    host.request("get_messages", id="m")
    host.prompt("fine?", id="p3")
    host.prompt("exhaust", id="p4")
