"""The works that are measured. Each starts an agent, has it do one thing, and returns figures.

wall, first    seconds; `first` is from the prompt to the first delta, in the first prompt of a process
cpu            seconds of CPU, the agent's own threads, not its children, without its start unless that is the work
memory         MiB, the peak over the whole life of the process
bytes          everything the agent wrote; `updates` only its message_update frames
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from bench.contestants import Contestant, running
from bench.driver import AgentProcess, Frame

Figures = dict[str, float]

PIECE = 8


@dataclass(frozen=True)
class Work:
    title: str
    measure: Callable[[Contestant], Figures]
    #: Whether the form of updates matters, so that this program is measured in both.
    both_forms: bool = False
    #: Left out unless asked for: it takes long and says little more.
    slow: bool = False


def start(contestant: Contestant) -> Figures:
    """From the start of the process to its answer to a first `get_state`."""
    with running(contestant, [{"text": "ok"}]) as agent:
        wall = ready(agent)
        cpu = agent.cpu_seconds()
        return {"wall": wall, "cpu": cpu, "memory": agent.finish()}


def stream(contestant: Contestant, pieces: int, delay_ms: int) -> Figures:
    """One prompt, answered by so many pieces of eight characters."""
    with running(contestant, [{"text": prose(pieces), "chunk": PIECE, "delayMs": delay_ms}]) as agent:
        ready(agent)
        before = agent.cpu_seconds()
        sent = agent.send(id="prompt", type="prompt", message="go")
        first = agent.wait_for(is_text_delta, "first delta", 60) - sent
        wall = agent.wait_for(is_end, "agent_end", 180) - sent
        cpu = agent.cpu_seconds() - before
        written = {"bytes": agent.bytes_out, "updates": agent.update_bytes}
        return {"wall": wall, "first": first, "cpu": cpu, **written, "memory": agent.finish()}


def turns(contestant: Contestant, count: int) -> Figures:
    """One prompt, for which the model asks for so many commands that do nothing, one a turn."""
    call = {"toolCalls": [{"name": "bash", "arguments": {"command": "true"}}]}
    with running(contestant, [*[call] * count, {"text": "done"}]) as agent:
        ready(agent)
        before = agent.cpu_seconds()
        sent = agent.send(id="prompt", type="prompt", message="go")
        wall = agent.wait_for(is_end, "agent_end", 180) - sent
        cpu = agent.cpu_seconds() - before
        return {"wall": wall, "cpu": cpu, "memory": agent.finish()}


WORKS = {
    "start": Work("process start to the first get_state answer", start),
    "stream": Work("2,000 pieces in a burst", lambda who: stream(who, 2_000, 0), both_forms=True),
    "long": Work("20,000 pieces in a burst", lambda who: stream(who, 20_000, 0), both_forms=True),
    "paced": Work("2,000 pieces, 1 ms apart", lambda who: stream(who, 2_000, 1), both_forms=True),
    "paced-long": Work("20,000 pieces, 1 ms apart", lambda who: stream(who, 20_000, 1), both_forms=True, slow=True),
    "turns-20": Work("20 turns of one `bash true`", lambda who: turns(who, 20)),
    "turns-200": Work("200 turns of one `bash true`", lambda who: turns(who, 200)),
}


def ready(agent: AgentProcess) -> float:
    """Seconds from the start of the process until it answers."""
    agent.send(id="ready", type="get_state")
    return agent.wait_for(lambda frame: frame.type == "response" and frame.id == "ready", "get_state answer", 60) - agent.started


def is_text_delta(frame: Frame) -> bool:
    return frame.event is not None and frame.event.type == "text_delta"


def is_end(frame: Frame) -> bool:
    return frame.type == "agent_end" and not frame.will_retry


def prose(pieces: int) -> str:
    """Words of seven letters and a space that nobody can compress or cache; the same in every run."""
    letters = random.Random(7)
    return "".join("".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=PIECE - 1)) + " " for _ in range(pieces))
