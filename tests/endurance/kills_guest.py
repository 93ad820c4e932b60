"""A host that does everything at random, and a model that does the same. An agent between them is killed at any moment."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.host import Frame
from tests.support.ledger import FORKS, MOVES
from tests.support.stage import Stage, Turn, bash, calls, says

MODELS = (("fake", "fake-1"), ("fake", "fake-2"), ("fake", "fake-small"), ("fakeoai", "fake-oai"))

#: What an agent was doing when it was killed, as far as its host can tell: several things at once, or nothing.
Phases = set[str]

#: An extension that works beside the agent: in its tool calls, at the end of its turns, and in a command.
EXTENSION = """
import asyncio

def setup(fl):
    @fl.on("tool_call")
    async def wait(event, context):
        await asyncio.sleep(0.002)

    @fl.on("turn_end")
    async def note(event, context):
        fl.append_entry("turn", {"at": "its end"})

    @fl.register_command("mark", description="Leave a mark")
    async def mark(text, context):
        fl.append_entry("mark", {"text": text})
        await asyncio.sleep(0.002)
        fl.append_entry("mark", {"text": text + " again"})
"""


def wild_turn(chance: random.Random) -> Turn:
    """Return a turn of the model."""
    pace = {"chunk": chance.choice((8, 40)), "delayMs": chance.choice((0, 1, 3))}
    words = "so it goes, " * chance.randrange(1, 40)
    shell = bash(f"echo {chance.random()}; sleep 0.0{chance.randrange(4)}; echo done")
    writing = ("write", {"path": f"{chance.randrange(3)}.txt", "content": words})
    reading = ("read", {"path": f"{chance.randrange(3)}.txt"})
    makes: Sequence[Callable[[], Turn]] = (
        lambda: says(words, **pace),
        lambda: {"thinking": words, "text": words, **pace},
        lambda: {"thinking": words, **calls(shell, **pace)},
        lambda: {"text": words, **calls(writing, shell, reading, shell, reading)},
        lambda: calls(*[reading] * 3, shell, ("no_such_tool", {})),
        lambda: says(words, repeat=chance.randrange(100, 400), chunk=20_000),
        lambda: says(words, usage={"input": 150_000, "output": 40_000}),
        lambda: {"status": 529, "error": "Overloaded"},
        lambda: says(words, dropAfter=2),
        lambda: {"status": 400, "error": chance.choice(("prompt is too long: 210000 tokens", "that was wrong"))},
    )
    return chance.choice(makes)()


class Guest:
    """A host that does everything that it can do, at random moments. `sent` has its commands."""

    def __init__(self, host: Stage, chance: random.Random, tag: str) -> None:
        self.sent: list[Frame] = []
        self._host = host
        self._chance = chance
        self._tag = tag
        #: The files of the sessions that the host was in, the present one last.
        self._files: list[str] = []

    def behave(self) -> None:
        """Do a few things at random, until all of them are done or the agent is killed."""
        acts = (
            [self.prompt] * 6 + [self.queue] * 4 + [self.run_command] * 2 + [self.compact] * 2 + [self.choose] * 2
            + [self.use_extension] * 2 + [self.clear, self.stop, self.fork, self.navigate, self.leave, self.go_back]
        )  # fmt: skip
        for act in self._chance.choices(acts, k=self._chance.randrange(4, 16)):
            act()
            for _ in range(self._chance.choice((0, 0, 1, 4))):
                self._await(self._say("get_state"))
        if self._chance.random() < 0.5:
            self._await(self._say("abort"))

    def prompt(self) -> None:
        since = self._host.mark()
        kind = self._chance.choice(("prompt", "prompt", "prompt", "abort_and_prompt"))
        how = {"streamingBehavior": self._chance.choice(("steer", "followUp"))} if kind == "prompt" else {}
        self._say(kind, message=self._text(), **how)
        if self._chance.random() < 0.4:
            self._host.until("agent_settled", since=since)

    def queue(self) -> None:
        for _ in range(self._chance.randrange(1, 4)):
            self._say(self._chance.choice(("steer", "follow_up")), message=self._text())

    def clear(self) -> None:
        self._say("clear_queue")

    def run_command(self) -> None:
        pause = self._chance.choice(("", "sleep 0.02; ", "seq 3000; "))
        self._say("bash", command=f"{pause}echo {self._number()}")

    def choose(self) -> None:
        provider, model = self._chance.choice(MODELS)
        level = self._chance.choice(("off", "low", "high"))
        self._say("set_session_name", name=f"name {self._number()}")
        self._say("set_model", provider=provider, modelId=model)
        self._say("set_thinking_level", level=level)

    def stop(self) -> None:
        self._say("abort")

    def compact(self) -> None:
        # Prompts are refused meanwhile, and omp says so in two answers. Hence the wait before the next act.
        answer = self._say("compact")
        if self._chance.random() < 0.3:
            self.queue()
        self._await(answer)

    def fork(self) -> None:
        kind = self._chance.choice(sorted(FORKS))
        places = self._await(self._say("get_fork_messages"))["data"]["messages"]
        if kind == "clone":
            self._await(self._say(kind))
        elif places:
            self._await(self._say(kind, entryId=self._chance.choice(places)["entryId"]))
        self._look()

    def leave(self) -> None:
        """Start another session."""
        self._await(self._say("new_session", parentSession=self._look()))
        self._look()

    def go_back(self) -> None:
        """Go to the session before this one, if there was one."""
        if len(self._files) > 1:
            self._look()
            self._await(self._say("switch_session", sessionPath=self._files[-2]))
            self._look()

    def use_extension(self) -> None:
        """Run a command of an extension, which writes an entry and a message."""
        self._await(self._say("prompt", message=f"/mark {self._number()}"))

    def navigate(self) -> None:
        places = self._await(self._say("get_fork_messages"))["data"]["messages"]
        if places:
            self._await(self._say("navigate_tree", targetId=self._chance.choice(places)["entryId"]))

    def _look(self) -> str:
        """Ask for the present session's file, and remember it."""
        file = self._await(self._say("get_state"))["data"]["sessionFile"]
        if file not in self._files[-1:]:
            self._files.append(file)
        return file

    def _say(self, type: str, **fields: Any) -> str:
        command = {"id": f"{type} {self._number()}", "type": type, **fields}
        self.sent.append(command)
        self._host.send(command)
        return command["id"]

    def _await(self, id: str) -> Frame:
        return self._host.response(id)

    def _number(self) -> str:
        return f"{self._tag}.{len(self.sent)}"

    def _text(self) -> str:
        """Return a text that is used once. Some need more than a page of the disk."""
        return f"{self._number()} " + "and so on " * self._chance.choice((0, 0, 3, 30, 1_000, 30_000))


def phases(sent: Sequence[Frame], frames: Sequence[Frame]) -> Phases:
    """Return what the agent was doing at its last event, and what the host was waiting for."""
    answered = {frame.get("id") for frame in frames if frame["type"] == "response"}
    if not answered:
        return {"starting"}
    going: Phases = set()
    for frame in frames:
        match frame["type"].removeprefix("auto_"):
            case "agent_start":
                going.add("working")
            case "agent_settled":
                going.clear()
            case "message_start" if frame["message"]["role"] == "assistant":
                going.add("streaming")
            case "message_end":
                going.discard("streaming")
            case "tool_execution_start":
                going.add("tools")
            case "turn_end":
                going.discard("tools")
            case "compaction_start":
                going.add("compacting")
            case "compaction_end":
                going.discard("compacting")
            case "retry_start":
                going.add("retrying")
            case "retry_end":
                going.discard("retrying")
            case _:
                pass
    waited_for = {command["type"] for command in sent if command["id"] not in answered}
    return going | {PHASE_OF[type] for type in waited_for if type in PHASE_OF} or {"idle"}


#: What an agent does while its host waits for the answer to a command.
PHASE_OF = {
    **dict.fromkeys(("prompt", "steer", "follow_up", "clear_queue"), "accepting"),
    **dict.fromkeys((*MOVES, "navigate_tree", "abort", "abort_and_prompt"), "stopping"),
    "compact": "compacting",
    "bash": "command",
}
