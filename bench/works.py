"""The workloads. Each starts an agent, makes it do one thing, and returns figures.

plain          seconds; the same workload without its special part, right before it
each           seconds; what the special part costs each time
wall, first    seconds; `first` is from the prompt to the first delta, in the first prompt of a process
switch         seconds until a session is open, before its messages are requested
cpu            seconds of CPU in the agent's threads, without children, and without the start unless that is the workload
memory         MiB, the peak over the whole life of the process
agent          KiB of Python objects that one more agent takes
idle, active, worst: see bench/servers.py
share, late, latest: see bench/company.py
piece          microseconds of CPU for each piece; `lone`: the same in a process that is alone, right before
first_prompts, last_prompts: milliseconds of CPU for each of the first and of the last hundred prompts
before, opened, kept: MiB before sessions are opened, while they are open, and more than before once they are closed
searchers      seconds of CPU in the programs that an agent started to search
bytes          everything the agent wrote; `updates` only its message_update frames

In the works of the clients, `cpu` and `memory` are those of the client, `server_cpu` and `server_memory` those of the agent, and
`early` and `server_early` the memory after the first 100 prompts.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Literal

import msgspec

from bench import acp, claude, clients, company, lasting
from bench.agents import idle_agents
from bench.chat import chat_start, chat_stream
from bench.contestants import Contestant, running
from bench.driver import AgentProcess, BenchError, Frame
from bench.rules import matching
from bench.searching import searches
from bench.servers import many_sessions
from bench.sessions import write_session

Figures = dict[str, float]

PIECE = 8


@dataclass(frozen=True)
class Work:
    title: str
    measure: Callable[[Contestant], Figures]
    #: Whether the form of updates matters, so that fairlead is measured with both.
    both_forms: bool = False
    #: Skipped unless requested: it takes long and adds little.
    slow: bool = False
    #: Measured for fairlead only, because no budget compares it with others.
    alone: bool = False
    protocol: Literal["rpc", "acp", "http", "claude"] = "rpc"
    #: Measured once, because it takes long and varies little.
    once: bool = False


def start(contestant: Contestant) -> Figures:
    """Measure from the start of the process to its answer to the first `get_state`."""
    with running(contestant, [{"text": "ok"}]) as agent:
        wall = ready(agent)
        cpu = agent.cpu_seconds()
        return {"wall": wall, "cpu": cpu, "memory": agent.finish()}


def start_extended(contestant: Contestant) -> Figures:
    """Measure the same with twenty idle extensions, right after a start without any."""
    plain = start(contestant)
    with running(contestant, [{"text": "ok"}], extensions=20) as agent:
        wall = ready(agent)
        return {"wall": wall, "plain": plain["wall"], "memory": agent.finish()}


def start_scripted(contestant: Contestant) -> Figures:
    """Measure a start with one extension in TypeScript."""
    with running(contestant, [{"text": "ok"}], gate=True) as agent:
        wall = ready(agent)
        cpu = agent.cpu_seconds()
        return {"wall": wall, "cpu": cpu, "memory": agent.finish()}


def measure_hooks(contestant: Contestant, count: int) -> Figures:
    """Measure turns with a gate in TypeScript before each call, right after the same turns without it."""
    plain = turns(contestant, count)
    gated = turns(contestant, count, gate=True)
    return {"wall": gated["wall"], "plain": plain["wall"], "each": (gated["wall"] - plain["wall"]) / count}


def stream(contestant: Contestant, pieces: int, delay_ms: int) -> Figures:
    """Measure one prompt that is answered with a number of pieces of eight characters."""
    with running(contestant, [{"text": prose(pieces), "chunk": PIECE, "delayMs": delay_ms}]) as agent:
        ready(agent)
        before = agent.cpu_seconds()
        sent = agent.send(id="prompt", type="prompt", message="go")
        first = agent.wait_for(is_text_delta, "first delta", 60) - sent
        wall = agent.wait_for(is_end, "agent_end", 180) - sent
        cpu = agent.cpu_seconds() - before
        written = {"bytes": agent.bytes_out, "updates": agent.update_bytes}
        return {"wall": wall, "first": first, "cpu": cpu, **written, "memory": agent.finish()}


def lone(contestant: Contestant, pieces: int, delay_ms: int, together: Barrier | None = None) -> Figures:
    """Measure the CPU for each piece of an answer at the pace of a fast model, in a process that has answered once before.

    The answer begins when all parties of `together` have come so far.
    """
    script = [{"text": "ok"}, {"text": prose(pieces), "chunk": PIECE, "delayMs": delay_ms}]
    with running(contestant, script) as agent:
        ready(agent)
        agent.send(id="first", type="prompt", message="go")
        agent.wait_for(is_end, "agent_end", 60)
        if together is not None:
            together.wait(60)
        agent.wait_until_idle()
        before = agent.cpu_seconds()
        agent.send(id="second", type="prompt", message="go")
        agent.wait_for(is_end, "agent_end", 60)
        cpu = agent.cpu_seconds() - before
        return {"piece": cpu / pieces * 1e6, "memory": agent.finish()}


def crowd(contestant: Contestant, processes: int, pieces: int, delay_ms: int) -> Figures:
    """Measure the same in a number of processes at once, right after one that is alone."""
    plain = lone(contestant, pieces, delay_ms)
    together = Barrier(processes)
    with ThreadPoolExecutor(processes) as threads:
        found = [threads.submit(lone, contestant, pieces, delay_ms, together) for _ in range(processes)]
    return {"piece": statistics.mean(each.result()["piece"] for each in found), "lone": plain["piece"]}


def turns(contestant: Contestant, count: int, *, gate: bool = False) -> Figures:
    """Measure one prompt for which the model runs a number of commands that do nothing, one per turn."""
    call = {"toolCalls": [{"name": "bash", "arguments": {"command": "true"}}]}
    with running(contestant, [*[call] * count, {"text": "done"}], gate=gate) as agent:
        ready(agent)
        before = agent.cpu_seconds()
        sent = agent.send(id="prompt", type="prompt", message="go")
        wall = agent.wait_for(is_end, "agent_end", 180) - sent
        cpu = agent.cpu_seconds() - before
        return {"wall": wall, "cpu": cpu, "memory": agent.finish()}


def search(contestant: Contestant, count: int, files: int, tool: str = "grep") -> Figures:
    """Measure one prompt for which the model searches a tree of files a number of times, once per turn."""
    turns = [*searches(1, tool), {"text": "done"}, *searches(count, tool), {"text": "done"}]
    with running(contestant, turns, tools=("read", "bash", tool), files=files) as agent:
        ready(agent)
        agent.send(id="first", type="prompt", message="go")
        agent.wait_for(is_end, "agent_end", 60)
        agent.wait_until_idle()
        before, children = agent.cpu_seconds(), agent.children_cpu_seconds()
        sent = agent.send(id="second", type="prompt", message="go")
        wall = agent.wait_for(is_end, "agent_end", 180) - sent
        cpu, searchers = agent.cpu_seconds() - before, agent.children_cpu_seconds() - children
        return {"wall": wall, "cpu": cpu, "searchers": searchers, "memory": agent.finish()}


def open_session(contestant: Contestant, entries: int) -> Figures:
    """Switch to a session with a number of entries as soon as the process answers, then get its messages."""
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        path = Path(folder, "long.jsonl")
        messages = write_session(path, entries)
        with running(contestant, []) as agent:
            ready(agent)
            return {**opening(agent, path, messages), "memory": agent.finish()}


def open_when_idle(contestant: Contestant, entries: int) -> Figures:
    """Measure the same after the start-up and after opening a small session, so that only the entries cost CPU."""
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        small, path = Path(folder, "small.jsonl"), Path(folder, "long.jsonl")
        few, messages = write_session(small, 10), write_session(path, entries)
        with running(contestant, []) as agent:
            ready(agent)
            opening(agent, small, few)
            agent.wait_until_idle()
            return {**opening(agent, path, messages), "memory": agent.finish()}


def opening(agent: AgentProcess, path: Path, messages: int) -> Figures:
    before = agent.cpu_seconds()
    began = time.perf_counter()
    switched, _ = agent.ask("switch_session", 60, sessionPath=str(path))
    read, answer = agent.ask("get_messages", 60)
    cpu = agent.cpu_seconds() - before
    if (got := conversation_length(answer)) != messages:
        raise BenchError(f"gave {got} messages of a session that has {messages}")
    return {"wall": read - began, "switch": switched - began, "cpu": cpu}


WORKS = {
    "start": Work("process start to the first get_state answer", start),
    "start-extended": Work("the same start with 20 idle extensions", start_extended, alone=True),
    "start-script": Work("the same start with an extension in TypeScript", start_scripted),
    "hooked": Work("200 turns with a gate in TypeScript", lambda who: measure_hooks(who, 200)),
    "stream-200": Work("200 pieces in a burst", lambda who: stream(who, 200, 0)),
    "stream": Work("2,000 pieces in a burst", lambda who: stream(who, 2_000, 0), both_forms=True),
    "long": Work("20,000 pieces in a burst", lambda who: stream(who, 20_000, 0), both_forms=True),
    "paced": Work("2,000 pieces, 1 ms apart", lambda who: stream(who, 2_000, 1), both_forms=True),
    "paced-long": Work("20,000 pieces, 1 ms apart", lambda who: stream(who, 20_000, 1), both_forms=True, slow=True),
    "lone": Work("150 pieces, 20 ms apart", lambda who: lone(who, 150, 20), both_forms=True),
    "crowd": Work("20 processes at once, 150 pieces each, 20 ms apart", lambda who: crowd(who, 20, 150, 20), alone=True),
    "turns-20": Work("20 turns of one `bash true`", lambda who: turns(who, 20)),
    "turns-100": Work("100 turns of one `bash true`", lambda who: turns(who, 100)),
    "turns-200": Work("200 turns of one `bash true`", lambda who: turns(who, 200)),
    "search": Work("20 searches with `grep` in 5,000 files", lambda who: search(who, 20, 5_000)),
    "find": Work("20 searches with `find` in 5,000 files", lambda who: search(who, 20, 5_000, "find"), alone=True),
    "open": Work("opening 10,000 entries, then get_messages", lambda who: open_session(who, 10_000)),
    "open-idle": Work("10,000 entries opened by an idle process", lambda who: open_when_idle(who, 10_000), alone=True),
    "open-idle-long": Work("100,000 entries opened by an idle process", lambda who: open_when_idle(who, 100_000), alone=True),
    "prompts": Work("1,000 prompts in one session", lambda who: lasting.prompts(who, 1_000), alone=True, once=True),
    "closed": Work(
        "200 sessions of 1,000 entries, opened and closed", lambda who: lasting.closed_sessions(200, 1_000), alone=True, once=True
    ),
    "acp-start": Work("process start to the answer to ACP's initialize", acp.start, protocol="acp"),
    "acp-output": Work("35,000 lines of output over ACP", acp.output, protocol="acp"),
    "claude-start": Work("process start to the answer to the initialize of claude-agent-sdk", claude.start, protocol="claude"),
    "claude-stream": Work(
        "2,000 pieces over claude-agent-sdk", lambda who: claude.stream(who, prose(2_000), PIECE), protocol="claude"
    ),
    "claude-long": Work(
        "20,000 pieces over claude-agent-sdk", lambda who: claude.stream(who, prose(20_000), PIECE), protocol="claude"
    ),
    "claude-turns": Work(
        "200 turns of one `Bash true` over claude-agent-sdk", lambda who: claude.turns(who, 200), protocol="claude"
    ),
    "company": Work("300 sessions in one process, 50 pieces a second each", lambda who: company.company(), alone=True, once=True),
    "agents": Work("200 idle agents in one event loop", lambda who: idle_agents(200), alone=True),
    "serve": Work("1,000 sessions in a server, 200 of which answer at once", many_sessions, protocol="http", once=True),
    "chat-start": Work("process start to the first picture of the chat", lambda who: chat_start(), alone=True),
    "chat-stream": Work(
        "10,000 pieces of Markdown in the chat, 400 a second", lambda who: chat_stream(10_000), alone=True, once=True
    ),
    "rules": Work("100,000 characters against 50 stream rules", lambda who: matching(100_000), alone=True),
    "rules-long": Work("1,000,000 characters against 50 stream rules", lambda who: matching(1_000_000), alone=True),
}
CLIENTS = {"async": "the Python client", "sync": "the blocking Python client", "typescript": "the TypeScript client"}
for kind, name in CLIENTS.items():
    WORKS[f"client-updates-{kind}"] = Work(
        f"20,000 updates through {name}", lambda who, kind=kind: clients.updates(kind), alone=True
    )
    WORKS[f"client-prompts-{kind}"] = Work(
        f"1,000 prompts over {name}", lambda who, kind=kind: clients.prompts(kind), alone=True, once=True
    )


def ready(agent: AgentProcess) -> float:
    """Return the seconds from the start of the process to its first answer."""
    read, _ = agent.ask("get_state", 60)
    return read - agent.started


def is_text_delta(frame: Frame) -> bool:
    return frame.event is not None and frame.event.type == "text_delta"


def is_end(frame: Frame) -> bool:
    return frame.type == "agent_end" and not frame.will_retry


class _Speaker(msgspec.Struct):
    role: str


class _Conversation(msgspec.Struct):
    messages: list[_Speaker]


def conversation_length(answer: Frame) -> int:
    """Count the messages in a `get_messages` response, without the system prompt, which pi includes."""
    assert answer.data is not msgspec.UNSET
    messages = msgspec.json.decode(answer.data, type=_Conversation).messages
    return sum(message.role != "system" for message in messages)


def prose(pieces: int) -> str:
    """Return words of seven letters and a space that resist compression and caching, the same in every run."""
    letters = random.Random(7)
    return "".join("".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=PIECE - 1)) + " " for _ in range(pieces))
