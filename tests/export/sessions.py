"""Sessions to export: a pleasant one with branches, a hostile one, a long one."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from typing import Any

Entry = dict[str, Any]
HEADER: Entry = {
    "type": "session",
    "version": 3,
    "id": "01a1dddd",
    "timestamp": "2026-11-15T06:20:48.531Z",
    "cwd": "/home/ada/projects/harbour",
}
MODEL = "claude-sonnet-4-5"


class Script:
    """Builds entries one after another; `at` goes back to an earlier one to branch off."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.leaf: str | None = None

    def at(self, entry_id: str | None) -> Script:
        self.leaf = entry_id
        return self

    def add(self, kind: str, entry_id: str | None = None, **fields: Any) -> str:
        number = len(self.entries)
        entry_id = entry_id or f"{number:08x}"
        time = f"2026-11-15T{6 + number // 3600 % 18:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
        self.entries.append({"type": kind, "id": entry_id, "parentId": self.leaf, "timestamp": time, **fields})
        self.leaf = entry_id
        return entry_id

    def message(self, role: str, content: Any, **fields: Any) -> str:
        return self.add("message", message={"role": role, "content": content, "timestamp": 1794723648531, **fields})

    def user(self, words: str, *blocks: Entry) -> str:
        return self.message("user", [text(words), *blocks])

    def assistant(self, *blocks: Entry, stop: str = "stop", **fields: Any) -> str:
        fields = {"model": MODEL, "provider": "anthropic", "api": "anthropic-messages", "usage": usage(), **fields}
        return self.message("assistant", list(blocks), stopReason=stop, **fields)

    def result(self, call: str, tool: str, words: str, *, error: bool = False, **fields: Any) -> str:
        return self.message("toolResult", [text(words)], toolCallId=call, toolName=tool, isError=error, **fields)


def text(words: str) -> Entry:
    return {"type": "text", "text": words}


def thinking(words: str) -> Entry:
    return {"type": "thinking", "thinking": words}


def call(call_id: str, name: str, **arguments: Any) -> Entry:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def image(data: str | None = None, kind: str = "image/png") -> Entry:
    return {"type": "image", "data": data or picture(), "mimeType": kind}


def usage(given: int = 1200, out: int = 300) -> Entry:
    cost = {"input": 0.0036, "output": 0.0045, "cacheRead": 0.0001, "cacheWrite": 0, "total": 0.0082}
    return {"input": given, "output": out, "cacheRead": 400, "cacheWrite": 0, "totalTokens": given + out + 400, "cost": cost}


def picture(width: int = 320, height: int = 120) -> str:
    """A small PNG, base64: a calm gradient."""
    rows = b"".join(
        b"\0" + b"".join(bytes((40 + x * 90 // width, 110 + y * 60 // height, 130 + x * 60 // width)) for x in range(width))
        for y in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b64encode(png).decode()


ANSWER = """The tide table is read **twice**: once in `load()` and again in `tides.py`. The second read wins, and drops the zone.

## What I would change

1. Read the table once, in `load()`.
2. Keep times in *UTC* until they are printed.

| station | before | after |
|---|---:|---:|
| Cuxhaven | 41 ms | 12 ms |
| Brest | 38 ms | 11 ms |

```python
def load(path: Path) -> Table:
    \"\"\"The table, in UTC.\"\"\"
    with path.open() as file:  # read once
        return Table.parse(file, zone=UTC)
```

> Times on paper are local. Times in memory never are.

See [the notes](https://example.com/tides) or https://example.com/zones.
"""

NUMBERED = """  ...
 12 def high_water(station):
-13     table = read(station)
+13     table = load(station.path)
 14     return table.next("high")
  ..."""

TESTS = (
    "\x1b[1mtests/test_tides.py\x1b[0m\n"
    "\x1b[32m✓\x1b[0m high water at Cuxhaven\n\x1b[32m✓\x1b[0m low water at Brest\n"
    "\x1b[31m✗\x1b[0m spring tide \x1b[2m(12 ms)\x1b[0m\n"
    "\x1b[38;5;208m1 warning\x1b[0m, \x1b[38;2;90;140;255m3 tests\x1b[0m, \x1b[41;97m 1 failed \x1b[0m\n"
) + "\n".join(f"\x1b[90mtrace\x1b[0m frame {number}: tides.py:{number * 7}" for number in range(40))


def pleasant() -> Script:
    """Everything a session may hold, with three branches; the last is the one to open on."""
    script = Script()
    script.add("model_change", provider="anthropic", modelId=MODEL)
    script.add("thinking_level_change", thinkingLevel="medium")
    script.user("The tide times are an hour off since Sunday.\nCan you find out why?", image())
    script.assistant(
        thinking("An hour since Sunday: *daylight saving*. Let me look at how times are read."),
        text("That is when summer time ended. Let me look at how the times are read."),
        call("c1", "read", path="src/harbour/tides.py"),
        call("c2", "bash", command="pytest -q tests/test_tides.py"),
        stop="toolUse",
    )
    script.result("c1", "read", "import csv\n\n\ndef read(path):\n    # local time!\n    return list(csv.reader(open(path)))\n")
    script.result("c2", "bash", TESTS, error=True)
    found = script.assistant(text(ANSWER))
    script.add("label", targetId=found, label="the cause")
    fork = script.user("Good. Fix it.")
    script.assistant(
        text("I will change one line."),
        call(
            "c3",
            "edit",
            path="src/harbour/tides.py",
            oldText="    table = read(station)",
            newText="    table = load(station.path)",
        ),
        stop="toolUse",
    )
    script.result("c3", "edit", "Replaced 1 block in src/harbour/tides.py.", details={"diff": NUMBERED})
    script.assistant(text("Done."))
    script.at(script.entries[-5]["id"])
    assert fork
    script.user("Rather than fixing it, explain daylight saving to me.")
    script.assistant(text("Clocks go back an hour in autumn"), stop="aborted", errorMessage="Request was aborted")
    script.user("Go on.")
    script.assistant(stop="error", errorMessage='529 {"type":"error","error":{"type":"overloaded_error"}}')
    script.at(found)
    script.add(
        "branch_summary", fromId=script.entries[-1]["id"], summary="The user asked about **daylight saving**; nothing changed."
    )
    script.user("Write a test first, then fix it.")
    script.assistant(
        call("c4", "write", path="tests/test_zone.py", content="def test_zone():\n    assert load(PATH).zone is UTC\n")
    )
    script.result("c4", "write", "Wrote 2 lines to tests/test_zone.py.")
    script.add(
        "message",
        message={
            "role": "bashExecution",
            "command": "git status --short",
            "output": "\x1b[31m M\x1b[m src/harbour/tides.py\n",
            "exitCode": 1,
            "cancelled": False,
            "truncated": False,
            "timestamp": 1,
        },
    )
    script.add(
        "compaction",
        summary="## Goal\nFix the tide times.\n\n## Done\n- a test",
        firstKeptEntryId=found,
        tokensBefore=151234,
        details={"readFiles": ["src/harbour/tides.py"], "modifiedFiles": ["tests/test_zone.py"]},
    )
    script.add("session_info", name="Tide times an hour off")
    script.add("custom_message", customType="reminder", content="Run the **whole** suite before you commit.", display=True)
    script.add("custom", customType="fairlead.queue", data={"steering": []})
    script.user("Now commit.")
    script.assistant(text("Committed as `4f2a91c`."))
    return script


#: Each would be noticed if it ran, loaded or broke out: it sets `window.hacked`, asks a server, or closes an element.
ATTACKS = [
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "<!--<script>",
    "-->",
    "]]>",
    "</style><script>window.hacked=1</script>",
    "</title><script>window.hacked=1</script>",
    "</textarea></pre></code></article></main><img src=x onerror=window.hacked=1>",
    "<img src=http://127.0.0.1:9/a.png onerror=window.hacked=1>",
    "<svg onload=window.hacked=1><animate onbegin=window.hacked=1 attributeName=x></svg>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "<link rel=stylesheet href=http://127.0.0.1:9/a.css><base href=http://127.0.0.1:9/>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<style>@import 'http://127.0.0.1:9/b.css'; body{display:none}</style>",
    '" onmouseover="window.hacked=1" autofocus onfocus="window.hacked=1" x="',
    "' onclick='window.hacked=1",
    "javascript:window.hacked=1",
    "[a](javascript:window.hacked=1) [b](JaVaScRiPt:window.hacked=1) [c](data:text/html,<script>1</script>) [d](vbscript:x)",
    "[e](&#106;avascript:window.hacked=1) [f](java\nscript:window.hacked=1) <javascript:window.hacked=1>",
    "[g]( javascript:window.hacked=1) [h](\\javascript:window.hacked=1) [o](//127.0.0.1:9/) [p](file:///etc/passwd)",
    "![i](http://127.0.0.1:9/i.png) ![j](javascript:window.hacked=1) ![k](data:image/svg+xml,<svg onload=hacked=1>)",
    "[l]: javascript:window.hacked=1\n\n[l]\n\n[m][m]\n\n[m]: http://127.0.0.1:9/ '\" onmouseover=window.hacked=1 '",
    '```"><script>window.hacked=1</script>\n</code></pre><script>window.hacked=1</script>\n```',
    "|<b onclick=hacked=1>|\n|---|\n|<script>window.hacked=1</script>|",
    "\x1b[38;2;1;2;3m</span><script>window.hacked=1</script>\x1b[0m\x1b]8;;javascript:hacked=1\x07link\x1b]8;;\x07",
    "\x1b[38;2;1;2;3}</style><script>m\x1b[</style>m",
    "{{constructor.constructor('hacked=1')()}} ${hacked=1} %3Cscript%3E \u2028 \u2029 \u202e \ud800 \x00 \ufeff",
]


def hostile() -> Script:
    """Attacks in every place where a session holds text."""
    script = Script()
    for number, attack in enumerate(ATTACKS):
        script.user(attack, image(attack), image(kind=attack), image(picture(2, 2), "image/svg+xml"))
        script.assistant(
            thinking(attack),
            text(attack),
            call(
                attack, attack, path=attack, command=attack, **{attack: attack}, nested={attack: [attack]}, content=f"{attack}\n"
            ),
            {"type": attack},
            model=attack,
            provider=attack,
            errorMessage=attack,
            stop="error",
        )
        script.result(attack, attack, attack, error=True, details={"diff": f"+1 {attack}\n-1 {attack}", "patch": attack})
        script.result(attack, "read", attack, details={"patch": attack})
        script.message("bashExecution", "", command=attack, output=attack, exitCode=attack, truncated=True, fullOutputPath=attack)
        script.message(attack, attack)
        script.message("custom", attack, customType=attack, display=True)
        script.message("system", attack, sections={attack: attack})
        script.add("compaction", summary=attack, tokensBefore=attack, details={"readFiles": [attack], "modifiedFiles": [attack]})
        script.add("branch_summary", summary=attack, fromId=attack)
        script.add("model_change", provider=attack, modelId=attack)
        script.add("thinking_level_change", thinkingLevel=attack)
        script.add("session_info", name=attack)
        script.add("custom", customType=attack, data={attack: attack})
        script.add("custom_message", customType=attack, content=attack, display=False)
        script.add("label", targetId=script.leaf, label=attack)
        script.add(attack, entry_id=f"{attack}{number}", timestamp_=attack)
        script.entries[-1]["timestamp"] = attack
        script.at(script.entries[number // 2]["id"])
    return script


def hostile_header() -> Entry:
    return {**HEADER, "cwd": "".join(ATTACKS), "id": ATTACKS[0], "timestamp": ATTACKS[1]}


def long(entries: int = 10_000) -> Script:
    """A working day: prompts, thinking, tool calls with coloured output, edits, answers in Markdown with code."""
    script = Script()
    turn = 0
    while len(script.entries) < entries:
        turn += 1
        script.user(f"Task {turn}: make station number {turn} faster, and say what you changed.")
        for round_ in range(3):
            name = f"c{turn}-{round_}"
            script.assistant(
                thinking(f"Step {round_} of task {turn}. " * 5),
                text("Let me look at the *next* file, `tides.py`."),
                call(name, "bash", command=f"pytest -q tests/test_station_{turn}.py -k round_{round_}"),
                stop="toolUse",
            )
            script.result(name, "bash", TESTS if turn % 5 == 0 else TESTS[:400])
        script.assistant(
            text(ANSWER if turn % 3 == 0 else f"Station {turn} is done. It was the `zone` argument.\n\n- one\n- two\n")
        )
        if turn % 40 == 0:
            script.at(script.entries[-6]["id"])
    return script
