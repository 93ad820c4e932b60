"""Fuzzes session files of all versions: damaged, shuffled, cut off, with cycles and copies. No line that is valid may be lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec
from tests.endurance.entries import Figures, Options
from tests.endurance.mutation import Mutator, assert_linear, encoded, json_object, run_cases, same_json, scratch
from tests.support.json_values import is_array, is_object

from fairlead.core import lenient
from fairlead.core.messages import UserMessage
from fairlead.errors import FairleadError, SessionError
from fairlead.session.context.tokens import for_model
from fairlead.session.history.claude_files import ClaudeFile
from fairlead.session.history.log import Log
from fairlead.session.history.reading import parse, read_session, read_transcript
from fairlead.session.history.store import SessionFile
from fairlead.stores.headers import header_in, new_header

NAME = "sessions"
TITLE = "Session files of versions 1 to 3 and of Claude Code: damaged, cut off, shuffled, with cycles; no valid line is lost"

_USAGE = {"input": 5, "output": 7, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 12, "cost": {"input": 0.1, "total": 0.1}}
_ANSWER: dict[str, Any] = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"},
        {"type": "text", "text": "Well \u2028 é 😀"},
        {"type": "toolCall", "id": "call-1", "name": "bash", "arguments": {"command": "ls"}},
    ],
    "api": "anthropic-messages",
    "provider": "p",
    "model": "m",
    "usage": _USAGE,
    "stopReason": "toolUse",
    "timestamp": 2,
}
_RESULT: dict[str, Any] = {
    "role": "toolResult",
    "toolCallId": "call-1",
    "toolName": "bash",
    "content": [{"type": "text", "text": "out"}, {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}],
    "isError": False,
    "timestamp": 3,
}
#: An entry of every type, without its place in the tree.
ENTRIES: list[dict[str, Any]] = [
    {"type": "model_change", "provider": "p", "modelId": "m"},
    {"type": "thinking_level_change", "thinkingLevel": "high"},
    {"type": "message", "message": {"role": "user", "content": "hi", "timestamp": 1}},
    {"type": "message", "message": _ANSWER},
    {"type": "message", "message": _RESULT},
    {"type": "message", "message": {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 0, "timestamp": 4}},
    {"type": "message", "message": {"role": "system", "content": "pi's own", "timestamp": 4}},
    {"type": "message", "message": {"role": "hookMessage", "customType": "t", "content": "x", "display": True, "timestamp": 4}},
    {"type": "compaction", "summary": "s", "firstKeptEntryId": "00000003", "tokensBefore": 7, "details": {"a": [1]}},
    {"type": "branch_summary", "fromId": "00000002", "summary": "s", "fromHook": True},
    {"type": "custom", "customType": "t", "data": {"n": 1}},
    {"type": "custom", "customType": "fairlead.calls", "data": {"op": "start", "id": "call-1"}},
    {
        "type": "custom_message",
        "customType": "t",
        "content": [{"type": "text", "text": "c"}],
        "display": True,
        "details": {"x": 1},
    },
    {"type": "label", "targetId": "00000002", "label": "l"},
    {"type": "session_info", "name": "named"},
    {"type": "usage", "kind": "task", "provider": "p", "model": "m", "usage": _USAGE, "note": "n"},
    {"type": "context_edit", "targetId": "00000002", "replacement": {"content": "edited"}},
    {"type": "hologram", "unknown": [1.5, 1e300, {"deep": None}]},
    {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "more"}], "timestamp": 5}},
]


def a_file(version: int, *, branches: bool = False) -> list[dict[str, Any]]:
    """Return the lines of a session file with an entry of every type."""
    header: dict[str, Any] = {"type": "session", "id": "019a", "timestamp": "2026-01-02T03:04:05.678Z", "cwd": "/work"}
    if version == 1:
        kept = [{**each, "timestamp": header["timestamp"]} for each in ENTRIES]
        return [header, *({**each, "firstKeptEntryIndex": 3} if each["type"] == "compaction" else each for each in kept)]
    lines: list[dict[str, Any]] = [header | {"version": version}]
    for number, each in enumerate(ENTRIES):
        parent = None if number == 0 else f"{number - (3 if branches and number % 4 == 3 else 1):08x}"
        lines.append({**each, "id": f"{number:08x}", "parentId": parent, "timestamp": f"2026-01-02T03:04:{number:02}.678Z"})
    return lines


def _text(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


FILES = [a_file(1), a_file(2), a_file(3), a_file(3, branches=True)]
_OLD = [_text(file) for file in FILES[:2]]
_NEW, _BRANCHED = (_text(file) for file in FILES[2:])
SEEDS = [*_OLD, _NEW, _BRANCHED, b'{"type":"title","title":"of omp"}\n' + _NEW, _NEW + _NEW, _NEW[:-1], _NEW[:200]]


def _a_session(source: random.Random) -> bytes:
    """Return a hostile session file."""
    mutator = Mutator(source, SEEDS, [b'"parentId":', b'"id":"00000002"', b'{"type":"message",', b'"00000003"'])
    if source.random() < 0.4:
        data = mutator.data()
        return data if source.random() < 0.3 else _NEW.split(b"\n")[0] + b"\n" + data
    lines = list(source.choice(FILES))
    for _ in range(source.randrange(1, 6)):
        at = source.randrange(1, len(lines))
        match source.randrange(7):
            case 0:
                lines[at] = {**lines[at], "parentId": lines[source.randrange(len(lines))].get("id")}
            case 1:
                lines[at] = {**lines[at], "id": lines[source.randrange(len(lines))].get("id")}
            case 2:
                rest = lines[1:]
                source.shuffle(rest)
                lines[1:] = rest
            case 3:
                lines.insert(at, lines[source.randrange(len(lines))])
            case 4:
                del lines[at]
                lines = lines if len(lines) > 1 else list(FILES[2])
            case _:
                changed = mutator.json(lines[at])
                lines[at] = changed if isinstance(changed, dict) else {"odd": changed}
    text = [encoded(line, source) for line in lines]
    if source.random() < 0.3:
        at = source.randrange(1, len(text))
        text[at] = Mutator(source, [text[at]]).data()
    data = source.choice((b"\n", b"\n", b"\n", b"\r\n", b"\n\n")).join(text)
    return data + b"\n" if source.random() < 0.6 else data


@lru_cache(2_000)  # most lines of a file are as they were
def _valid(line: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return the id and the value of a line if it is an entry beyond doubt, as Python's own parser reads it."""
    value = json_object(line)
    if value is None or not isinstance(value.get("type"), str) or value["type"] == "session":
        return None
    if not isinstance(value.get("id"), str) or not isinstance(value.get("parentId"), str | None):
        return None
    if not isinstance(value.get("timestamp", ""), str) or not _is_small(value):
        return None
    return lenient.scrub_text(value["id"]), value


def _is_small(value: Any, depth: int = 0) -> bool:
    """Whether a value is not nested so deeply that a parser may refuse it."""
    inner: list[Any] = list(value.values()) if is_object(value) else value if is_array(value) else []
    return depth < 100 and all(_is_small(each, depth + 1) for each in inner)


def loading(source: random.Random) -> None:
    """Every valid entry of a file is in the log, with its JSON, and everything that reads the log works."""
    data = _a_session(source)
    path = Path("/x/session.jsonl")
    try:
        contents = parse(path, data)
    except SessionError:
        if (header := header_in(data)) is not None:  # the listing would show it
            raise AssertionError(f"there is a header: {header}") from None
        return
    log = contents.log
    _use(log, source)
    entries: dict[str, bytes] = {}
    for position in range(len(log)):
        entry, line = log.at(position)
        entries[entry.id] = line
        assert b"\n" not in line
    version = contents.migrated is None
    lines = data.split(b"\n")
    seen: set[str] = set()
    for line in lines[1:]:
        found = _valid(line)
        if found is None or found[0] in seen or (line is lines[-1] and not contents.unended):
            continue
        seen.add(found[0])
        if version:
            assert found[0] in entries, f"lost: {line!r}"
            kept = entries[found[0]]  # of two lines with one id, the first is kept
            if kept in lines:
                continue
            repaired = {lenient.repair_json(each) for each in lines}
            assert kept in repaired or same_json(json.loads(kept), lenient.scrub(found[1])), (kept, line)
    _check_saved(log)


def _check_saved(log: Log) -> None:
    """A log that is saved and loaded is the same."""
    text = b"".join(line + b"\n" for line in log.lines())
    again = parse(Path("/x"), text)
    assert not again.problems and again.good == len(text) and again.migrated is None
    assert again.log.lines() == log.lines()
    assert again.log.header == log.header


#: Python's own parser. As integers, it would refuse numbers of more than 4,300 digits.
parsed = partial(json.loads, parse_int=float)


def _use(log: Log, source: random.Random) -> None:
    """Do everything with a log that reads it."""
    messages = log.messages()
    list(map(for_model, messages))
    for text in (log.messages_json(), log.entries_json(), log.tree_json()):
        text.decode()
    if len(log) < 500:  # the tree is as deep as the conversation is long
        parsed(log.messages_json())
        parsed(log.tree_json())
    assert len(parsed(log.entries_json())) == len(log.entries())
    log.plain(log.entries())
    log.user_messages(), log.labels, log.name, log.model(), log.find_chosen_model(), log.thinking_level()  # pyright: ignore[reportUnusedExpression]
    list(log.back_with_notes())
    for position in {source.randrange(len(log)) for _ in range(min(2, len(log)))}:
        entry, _ = log.at(position)
        log.children(entry.id)
        fork = log.fork(new_header("f", "/", 1), at=entry.id)
        assert entry.id in fork
        _check_saved(fork)


def files(folder: Path, source: random.Random) -> None:
    """A file that is opened, written to and opened again has every entry that it had, and the new one."""
    path = folder / "session.jsonl"
    data = _a_session(source)
    path.write_bytes(data)
    read_transcript(path)
    try:
        log, _ = read_session(path)
        file, opened, _ = SessionFile.open(path)
    except SessionError:
        assert path.read_bytes() == data
        return
    try:
        before = [opened.at(number)[0].id for number in range(len(opened))]
        assert before == [log.at(number)[0].id for number in range(len(log))]
        added = opened.message(UserMessage("new", 1))
    finally:
        file.close()
    after, _ = read_session(path)
    assert [after.at(number)[0].id for number in range(len(after))] == [*before, added.id]
    again, _, problems = SessionFile.open(path)
    again.close()
    assert not any("incomplete" in problem for problem in problems)
    shown = {json.dumps(json.loads(line, parse_int=str).get("id")) for line in read_transcript(path).lines}
    before = [json.dumps(id) for id in before]
    assert set(before) <= shown, set(before) - shown


_CLAUDE_ID = "11111111-1111-4111-8111-111111111111"


def _claude_file() -> bytes:
    """Return a session file in the layout of Claude Code, with a line of every kind."""
    ids = [f"{number}0000000-0000-4000-8000-000000000000" for number in range(6)]
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "out"}
    messages: list[tuple[str, Any]] = [
        ("user", {"role": "user", "content": "hi"}),
        ("assistant", {**answer, "content": [{"type": "text", "text": "Well \u2028 é 😀"}]}),
        ("assistant", {**answer, "content": [call], "stop_reason": "tool_use"}),
        ("user", {"role": "user", "content": [result]}),
        ("assistant", {**answer, "id": "msg_2", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}),
        ("user", {"role": "user", "content": [{"type": "text", "text": "more"}]}),
    ]
    common = {"sessionId": _CLAUDE_ID, "timestamp": "2026-01-02T03:04:05.678Z", "cwd": "/work", "isSidechain": False}
    lines: list[dict[str, Any]] = [
        {"type": kind, "uuid": ids[at], "parentUuid": ids[at - 1] if at else None, "message": message, **common}
        for at, (kind, message) in enumerate(messages)
    ]
    others = [
        {"type": "custom-title", "customTitle": "named", "sessionId": _CLAUDE_ID},
        {"type": "tag", "tag": "x"},
        {"type": "?"},
    ]
    return _text([*lines, *others])


_CLAUDE_SEEDS = [_claude_file(), _claude_file() * 2, _claude_file()[:-1], _claude_file()[:400]]


def claude_files(folder: Path, source: random.Random) -> None:
    """A file of Claude Code that is opened, written to and opened again has every entry that it had, and the new one."""
    path = folder / f"{_CLAUDE_ID}.jsonl"
    data = Mutator(source, _CLAUDE_SEEDS, [b'"parentUuid":', b'"uuid":', b'"tool_use_id":', b'"type":"assistant"']).data()
    path.write_bytes(data)
    try:
        file, opened, _ = ClaudeFile.open(path)
    except SessionError:
        assert path.read_bytes() == data
        return
    try:
        _use_claude(opened)
        before = [entry.id for entry in opened.entries()]
        added = opened.message(UserMessage("new", 1))
    finally:
        file.close()
    again, log, problems = ClaudeFile.open(path)
    again.close()
    _use_claude(log)
    after = [entry.id for entry in log.entries()]
    assert added.id in after and set(before) <= set(after), (data, before, after)
    assert not any("incomplete" in problem for problem in problems), data


def _use_claude(log: Log) -> None:
    list(map(for_model, log.messages()))
    parsed(log.messages_json())


def checks(folder: Path) -> dict[str, Callable[[random.Random], object]]:
    """Return the checks by name. `folder` gets files."""
    return {"loading": loading, "files": partial(files, folder), "claude": partial(claude_files, folder)}


def growth() -> None:
    """Check that a file costs work in proportion to its size, however its entries refer to each other."""

    def chain(number: int) -> str | None:
        return f"{number - 1:08x}" if number else None

    def star(number: int) -> str | None:
        return "00000000" if number else None

    def missing(number: int) -> str | None:
        return f"{number + 1_000_000:08x}"

    def work(size: int, parent: Callable[[int], str | None], every: str) -> Callable[[], object]:
        header = msgspec.json.encode({"type": "session", "version": 3, "id": "x", "timestamp": "", "cwd": "/"})
        rows = [
            b'{"type":"message","id":"%08x","parentId":%b,"timestamp":"","message":{"role":"user","content":"x"}}%b'
            % (number, json.dumps(parent(number)).encode(), every.encode())
            for number in range(size)
        ]
        data = b"\n".join([header, *rows, b""])

        def read() -> None:
            log = parse(Path("/x"), data).log
            log.messages()
            log.tree_json()
            log.entries_json()

        return read

    for parent in (chain, star, missing):
        for every in ("", "\nnot JSON", '\n{"type":"x"}'):
            assert_linear(lambda size, parent=parent, every=every: work(size, parent, every), size=1_000)


def run(options: Options) -> Figures:
    with scratch("sessions") as folder:
        figures = run_cases(options, checks(folder), short=800, long=1_000_000)
    if not options.short:
        try:
            growth()
        except (AssertionError, FairleadError) as error:
            figures.problems.append(f"the work grows faster than the file: {error}")
    return figures
