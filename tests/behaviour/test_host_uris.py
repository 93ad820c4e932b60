"""URIs that the host answers for: `read` and `write` on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.host import SOON, Frame
from tests.support.host_tools import PROMPT, ends, of_type
from tests.support.stage import Stage, calls, says, stage

every_dialect = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])

DB: Frame = {"scheme": "db", "description": "Rows", "writable": True}
URI = "db://users/1"
READ = calls(("read", {"path": URI}))
WRITE = calls(("write", {"path": URI, "content": "new\n"}))
MALFORMED = "The host returned a malformed result for the"


def register(host: Stage, *schemes: Frame) -> Frame:
    return host.request("set_host_uri_schemes", schemes=list(schemes))


def begin(host: Stage, *schemes: Frame) -> Frame:
    """Register schemes and prompt; the first request that comes of it."""
    assert register(host, *(schemes or (DB,)))["success"]
    host.send(PROMPT)
    return host.until("host_uri_request")


def result(request: Frame, **fields: Any) -> Frame:
    return {"type": "host_uri_result", "id": request["id"], **fields}


@every_dialect
def test_reading_and_writing_go_to_the_host(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [READ, WRITE, says("ok")]) as host:
        reading = begin(host)
        assert reading == {"type": "host_uri_request", "id": reading["id"], "operation": "read", "url": URI}
        assert len(reading["id"]) == 16 and int(reading["id"], 16)
        host.send(result(reading, content="name=Alice\n", contentType="text/markdown"))
        writing = host.until("host_uri_request", nth=2)
        assert writing.items() >= {"operation": "write", "url": URI, "content": "new\n"}.items()
        host.send(result(writing))
        host.until("agent_settled")
        wrote = "Successfully wrote" if dialect == "pi" else "Successfully wrote 4 bytes"
        assert ends(host) == [("name=Alice\n", False), (f"{wrote} to {URI}", False)]
        assert of_type(host, "tool_execution_end")[0]["result"]["details"] == {"contentType": "text/markdown"}
        assert list(host.around.cwd.iterdir()) == []


def test_notes_of_the_host_follow_the_result(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [READ, WRITE, says("ok")]) as host:
        host.send(result(begin(host), content="row", notes=["from the cache", "2 days old"]))
        host.send(result(host.until("host_uri_request", nth=2), notes=["queued"]))
        host.until("agent_settled")
        read, written = of_type(host, "tool_execution_end")
        assert [block["text"] for block in read["result"]["content"]] == ["row", "[from the cache]\n[2 days old]"]
        assert [block["text"] for block in written["result"]["content"]][1:] == ["[queued]"]
        assert read["result"]["details"] == {"contentType": "text/plain"}


def test_details_say_what_never_changes(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [READ, READ, says("ok")]) as host:
        host.send(result(begin(host, {**DB, "immutable": True}), content="row"))
        host.send(result(host.until("host_uri_request", nth=2), content="row", immutable=False))
        host.until("agent_settled")
        details = [end["result"]["details"] for end in of_type(host, "tool_execution_end")]
        assert details == [{"contentType": "text/plain", "immutable": True}, {"contentType": "text/plain"}]


def test_a_long_document_is_shown_in_windows(tmp_path: Path) -> None:
    def window(**arguments: int) -> Any:
        return calls(("read", {"path": URI, **arguments}))

    lines = "".join(f"line {number}\n" for number in range(1, 2501))
    turns = [window(), window(offset=2400), window(offset=3, limit=2), window(offset=9999), window(), says("ok")]
    with stage(tmp_path, "omp", turns) as host:
        begin(host)
        for number, content in enumerate([lines, lines, lines, lines, "x" * 60_000]):
            host.send(result(host.until("host_uri_request", nth=number + 1), content=content))
        host.until("agent_settled")
        first, rest, some, beyond, wide = ends(host)
        assert first[0].endswith("line 2000\n\n[Showing lines 1-2000 of 2500. Use offset=2001 to continue.]")
        assert (rest[0].splitlines()[0], rest[0].splitlines()[-1]) == ("line 2400", "line 2500")
        assert some == ("line 3\nline 4\n\n[2496 more lines in file. Use offset=5 to continue.]", False)
        assert beyond == ("Offset 9999 is beyond end of file (2500 lines total)", True)
        assert wide == ("[Line 1 is 58.6KB, exceeds 50.0KB limit.]", False)
        details = of_type(host, "tool_execution_end")[0]["result"]["details"]
        assert (details["contentType"], details["truncation"]["totalLines"]) == ("text/plain", 2500)


@pytest.mark.parametrize(
    ("turn", "answer", "text"),
    [
        (READ, {"isError": True, "error": "no such row"}, "no such row"),
        (READ, {"isError": True, "content": "gone"}, "gone"),
        (READ, {"isError": True}, f"Host URI read failed for {URI}"),
        (WRITE, {"isError": True, "error": "locked"}, "locked"),
        (WRITE, {"isError": True}, f"Host URI write failed for {URI}"),
        (READ, {}, f"{MALFORMED} read of {URI}: content: required, but missing"),
        (
            READ,
            {"content": 5},
            f"{MALFORMED} read of {URI}: content: expected a string, got a number",
        ),
        (
            WRITE,
            {"notes": [1]},
            f"{MALFORMED} write of {URI}: notes[0]: expected a string, got a number",
        ),
    ],
)
def test_failures_and_malformed_results_are_errors_that_say_why(tmp_path: Path, turn: Any, answer: Frame, text: str) -> None:
    with stage(tmp_path, "omp", [turn, says("ok")]) as host:
        host.send(result(begin(host), **answer))
        host.until("agent_settled")
        assert ends(host) == [(text, True)]


def test_a_scheme_that_is_not_writable_is_only_read(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [WRITE, READ, says("ok")]) as host:
        host.send(result(begin(host, {"scheme": "db"}), content="row"))
        host.until("agent_settled")
        assert ends(host) == [(f"{URI} cannot be written: its host offers db:// for reading only.", True), ("row", False)]
        assert [request["operation"] for request in of_type(host, "host_uri_request")] == ["read"]


def test_edit_refuses_uris_that_are_not_files(tmp_path: Path) -> None:
    edit = calls(("edit", {"path": URI, "edits": [{"oldText": "a", "newText": "b"}]}))
    with stage(tmp_path, "omp", [edit, says("ok")]) as host:
        register(host, DB)
        host.prompt("go")
        assert ends(host) == [(f"edit works on files only. Read {URI}, then replace all of it with write.", True)]
        assert of_type(host, "host_uri_request") == []


@every_dialect
def test_an_abort_takes_a_request_back(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [READ, says("later")]) as host:
        request = begin(host)
        host.request("abort")
        (cancel,) = of_type(host, "host_uri_cancel")
        assert cancel == {"type": "host_uri_cancel", "id": cancel["id"], "targetId": request["id"]}
        assert ends(host) == [(f"Host URI read for {URI} was aborted", True)]
        host.send(result(request, content="late"))
        host.prompt("go on", id="p2")
        assert len(ends(host)) == 1


def test_a_host_tool_timeout_is_reported_and_the_run_continues(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [READ, says("ok")], settings={"tools": {"timeoutSeconds": 0.05}}) as host:
        request = begin(host)
        assert host.until("host_uri_cancel")["targetId"] == request["id"]
        host.until("agent_settled")
        assert ends(host) == [("read did not finish within 0.05 seconds and was stopped.", True)]


def test_a_host_that_leaves_answers_nothing_any_more(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [READ]) as host:
        begin(host)
        host.close_input()
        assert host.exit_code(patience=SOON) == 0
        assert ends(host) == [("RPC client disconnected before host URI request completed", True)]


# Schemes


@every_dialect
def test_schemes_that_cannot_be_used_are_refused_and_change_nothing(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [READ, says("ok")]) as host:
        assert register(host, {"scheme": " DB "})["data"] == {"schemes": ["db"]}
        refused: list[tuple[Any, str]] = [
            ([{}], "Host URI scheme must be a non-empty string"),
            (["db"], "Host URI scheme must be a non-empty string"),
            ([{"scheme": " "}], "Host URI scheme must be a non-empty string"),
            ([{"scheme": "new"}, {"scheme": 5}], "Host URI scheme must be a non-empty string"),
            ([{"scheme": "1x"}], "Host URI scheme contains invalid characters: 1x"),
            ([{"scheme": "db:"}], "Host URI scheme contains invalid characters: db:"),
            ([{"scheme": "File"}], "Host URI scheme is reserved by fairlead: file://"),
            ([{"scheme": "https"}], "Host URI scheme is reserved by fairlead: https://"),
            ([{"scheme": "security"}], "Host URI scheme is reserved by fairlead: security://"),
            ([{"scheme": "new", "writable": "yes"}], "schemes[0].writable: expected true or false, got a string"),
        ]
        for schemes, error in refused:
            answer = host.request("set_host_uri_schemes", schemes=schemes)
            assert (answer["success"], answer["error"]) == (False, error)
        assert host.request("set_host_uri_schemes")["error"] == "schemes: required, but missing"
        host.send(PROMPT)
        host.send(result(host.until("host_uri_request"), content="row"))
        host.until("agent_settled")
        assert ends(host) == [("row", False)]


def test_schemes_are_the_same_in_upper_and_lower_case(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(("read", {"path": "Db+X://Users/1"})), says("ok")]) as host:
        request = begin(host, {"scheme": "dB+x"})
        assert request["url"] == "Db+X://Users/1"
        host.send(result(request, content="row"))
        host.until("agent_settled")
        assert ends(host) == [("row", False)]


def test_other_schemes_take_the_place_of_those_before(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [READ, WRITE, says("ok")]) as host:
        register(host, DB)
        assert register(host, {"scheme": "other"})["data"] == {"schemes": ["other"]}
        host.prompt("go")
        nobody = f"{URI} is not a file, and there is nothing here that reads or writes db:// URIs."
        assert ends(host) == [(nobody, True), (nobody, True)]
        assert of_type(host, "host_uri_request") == []
        assert list(host.around.cwd.iterdir()) == []


def test_a_scheme_that_is_taken_back_during_a_request_still_gets_its_answer(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [READ, says("ok")]) as host:
        request = begin(host, {**DB, "immutable": True})
        register(host)
        host.send(result(request, content="row"))
        host.until("agent_settled")
        assert ends(host) == [("row", False)]
        assert of_type(host, "tool_execution_end")[0]["result"]["details"] == {"contentType": "text/plain"}
