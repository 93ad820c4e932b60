"""Disturbs scripted runs at random moments, with aborts, messages and compactions, in this process and through the wire."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
from tests.endurance.aborts_wire import disturb_process
from tests.endurance.entries import Figures, Options
from tests.endurance.faults_order import Order
from tests.support.session_file import missing, read_strictly, repeated, text_of

from fairlead import Agent, CancelToken, ModelRequest
from fairlead.core import events as e
from fairlead.core.messages import ToolCall
from fairlead.errors import FairleadError
from fairlead.platform.process import child_guard
from fairlead.session.compaction.summary import SYSTEM_PROMPT as SUMMARY_PROMPT
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

NAME = "aborts"
TITLE = "5,000 runs disturbed at a random moment by aborts, steering, prompts and compactions, a tenth of them through the wire"
STARTS_PROCESSES = True

#: Rounds with one agent.
ROUNDS = 50
#: Seconds within which a disturbed run has settled.
PATIENCE = 30
SETTINGS = '{"compaction": {"keepRecentTokens": 50}, "retry": {"baseDelayMs": 3}}'


def run(options: Options) -> Figures:
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of each client that leaves in the middle of an answer
    figures = Figures()
    deeds: Counter[str] = Counter()
    lives = options.choose(4, 90)
    with tempfile.TemporaryDirectory(prefix="fairlead-aborts-") as folder:
        for life in range(lives):
            seed = f"{options.seed}.{life}"
            try:
                deeds += asyncio.run(disturb_agent(Path(folder, str(life)), random.Random(seed)))
            except AssertionError as error:
                figures.problems.append(f"seed {seed}: {error}")
        processes = options.choose(1, 10)
        for life in range(processes):
            seed = f"{options.seed}.wire.{life}"
            try:
                deeds += disturb_process(Path(folder, f"wire-{life}"), random.Random(seed), options.choose(15, ROUNDS), life)
            except AssertionError as error:
                figures.problems.append(f"seed {seed}: {error}")
    figures.done |= {
        "rounds": deeds.pop("round", 0),
        "of them through the wire": deeds.pop("wire", 0),
        "disturbances": ", ".join(f"{count} {deed}" for deed, count in deeds.most_common()),
    }
    return figures


async def disturb_agent(root: Path, chance: random.Random) -> Counter[str]:
    """Disturb the runs of one agent, then check its file and what is left of it. Returns what was done, and how often."""
    home, project = root / "home", root / "project"
    home.mkdir(parents=True)
    project.mkdir()
    (home / "settings.json").write_text(SETTINGS)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "FAIRLEAD_HOME": str(home)}
    file = root / "session.jsonl"
    agent = Agent(
        model=SCRIPTED_MODEL,
        stream=wild_model(chance),
        cwd=project,
        env=env,
        session=file,
        keep=True,
        tools=["bash", "task", wait],
    )
    rounds = Rounds(agent, chance)
    await rounds.play()  # what the first round loads is not a leak
    child_guard.prepare()
    before = leftovers()
    for _ in range(ROUNDS - 1):
        await rounds.play()
    await rounds.close_in_a_run()
    rounds.order.check_end("the end of the agent")
    gc.collect()
    after = leftovers()
    assert not rounds.order.problems, rounds.order.problems[:10]
    assert after["tasks"] == 1 and after["children"].keys() <= before["children"].keys(), (before, after)
    assert after["descriptors"] <= before["descriptors"], (before, after)
    check_file(file, rounds)
    return rounds.deeds


def check_file(file: Path, rounds: Rounds) -> None:
    lines = read_strictly(file)
    heard = lines.user_texts()
    waiting = [text_of(message) for message in lines.waiting() if message["role"] == "user"]
    assert not repeated(heard), "heard twice"
    lost = rounds.accepted - {*heard, *waiting} - rounds.taken_back
    assert not lost, f"accepted and lost: {sorted(lost)[:5]}"
    unwritten = missing(rounds.told, lines.messages)
    assert not unwritten, f"told and not in the file: {unwritten[:3]}"


class Rounds:
    """Rounds with one agent: each starts a run, disturbs it, and waits until the session has settled."""

    def __init__(self, agent: Agent, chance: random.Random) -> None:
        self.deeds: Counter[str] = Counter()
        self.order = Order()
        #: The texts that the agent accepted, and those that were taken back from its queue.
        self.accepted: set[str] = set()
        self.taken_back: set[str] = set()
        #: The messages of which listeners were told.
        self.told: list[Any] = []
        self._agent = agent
        self._session = agent.session
        self._chance = chance
        self._events = 0
        self._changed = asyncio.Event()
        self._session.subscribe(self._hear)

    def _hear(self, event: e.Event) -> None:
        self.order.hear(event)
        if isinstance(event, e.MessageEnd):
            self.told.append(msgspec.to_builtins(event.message))
        self._events += 1
        self._changed.set()

    async def play(self) -> None:
        """Play one round. Raises AssertionError if the session does not settle."""
        self.deeds["round"] += 1
        number, settled = self.deeds["round"], self.order.settled
        await self._deed("prompt", number)
        deeds = [self._chance.choice(DEEDS) for _ in range(self._chance.choice((1, 1, 1, 2, 3)))]
        for place, deed in enumerate(deeds):
            await self._moment()
            self.deeds[deed] += 1
            await self._deed(deed, f"{number}.{place}")
        try:
            async with asyncio.timeout(PATIENCE):
                if self._chance.random() < 0.5:
                    await self._session.abort()  # some turns and tools end only then
                    if self._session.activity.is_streaming:
                        await self._session.abort()
                await self._until_idle()
        except TimeoutError:
            raise AssertionError(f"round {number} ({', '.join(deeds)}) did not settle") from None
        steering, follow_up = self._session.queue.clear()
        self.taken_back |= {*steering, *follow_up}
        await self._agent.idle()
        assert not self.order.problems, f"round {number} ({', '.join(deeds)}): {self.order.problems[:5]}"
        assert self.order.settled > settled or not self.accepted, f"round {number} did not settle"
        assert self._session.activity.is_at_rest, f"round {number}: the session is not at rest"

    async def close_in_a_run(self) -> None:
        """Start a run, and close the agent at a random moment of it."""
        await self._deed("prompt", "at the end")
        await self._moment()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._agent.close()
        except TimeoutError:
            raise AssertionError("an agent with a run could not be closed") from None
        assert not self.order.is_running, "the last run has not settled"

    async def _until_idle(self) -> None:
        """Wait until the session is idle, and abort turns and tools that would last."""
        while not self._session.activity.is_at_rest:
            try:
                async with asyncio.timeout(0.15):
                    await self._agent.idle()
            except TimeoutError:
                await self._session.abort()

    async def _moment(self) -> None:
        """Wait for some events, for some turns of the event loop, or for some milliseconds."""
        match self._chance.randrange(3):
            case 0:
                await self._until_event(self._events + self._chance.randrange(1, 40))
            case 1:
                for _ in range(self._chance.randrange(60)):
                    await asyncio.sleep(0)
            case _:
                await asyncio.sleep(self._chance.uniform(0, 0.02))

    async def _until_event(self, number: int) -> None:
        try:
            async with asyncio.timeout(0.05):
                while self._events < number:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass  # the run has fewer events, or waits for the abort

    async def _deed(self, deed: str, number: object) -> None:
        """Do something to the session. It may be refused, but then nothing has changed."""
        text = f"{deed} {number}"
        session = self._session
        try:
            match deed:
                case "prompt" | "queued prompt":
                    accepted = await session.prompt(text, behavior="steer" if deed == "queued prompt" else None)
                    if accepted is not None:
                        self.accepted.add(text)
                case "steer" | "follow_up":
                    await (session.steer(text) if deed == "steer" else session.follow_up(text))
                    self.accepted.add(text)
                case "abort":
                    await session.abort()
                case "two aborts":
                    await asyncio.gather(session.abort(), session.abort())
                case "compact":
                    await session.compact()
                case "compact and abort":
                    compacting = session.compact()
                    await self._moment()
                    await session.abort()
                    await compacting
                case "navigate":
                    places = session.history.log.user_messages()
                    if places:
                        await session.navigate(self._chance.choice(places)[0], summarise=self._chance.random() < 0.5)
                case _:
                    raise ValueError(deed)
        except FairleadError as error:
            self.deeds[f"refused ({type(error).__name__})"] += 1


DEEDS = (
    "abort", "abort", "abort", "abort", "two aborts", "steer", "follow_up", "prompt", "queued prompt", "compact",
    "compact and abort", "navigate",
)  # fmt: skip


async def wait(seconds: float) -> str:
    """Wait for some seconds."""
    await asyncio.sleep(seconds)
    return "waited"


def wild_model(chance: random.Random) -> Any:
    """Return a model that answers each request at random."""
    numbers = iter(range(1_000_000))

    async def stream(request: ModelRequest, cancel: CancelToken) -> AsyncGenerator[list[Any]]:
        is_summary = request.system_prompt == SUMMARY_PROMPT
        turn = Turn(text="What happened. " * 10, pause=pause(chance)) if is_summary else wild_turn(chance, next(numbers))
        async for batch in Scripted([turn])(request, cancel):
            yield list(batch)

    return stream


def pause(chance: random.Random) -> Any:
    """Return a pause before each piece of an answer: none, one turn of the event loop, or a millisecond."""
    seconds = chance.choice((None, 0, 0, 0.001))
    return None if seconds is None else lambda: asyncio.sleep(seconds)


def wild_turn(chance: random.Random, number: int) -> Turn:
    words = "so it goes, " * chance.randrange(1, 10)
    command = chance.choice((f"echo {number}", "sleep 600", f"sleep 2 & echo {number}"))
    assignment = {"id": f"sub-{number}", "description": "some work", "assignment": "Do some work."}
    tools = [
        ToolCall(f"wait-{number}", "wait", {"seconds": chance.choice((0, 0.001, 0.02, 600))}),
        ToolCall(f"bash-{number}", "bash", {"command": command}),
        ToolCall(f"none-{number}", "no_such_tool", {}),
        ToolCall(f"task-{number}", "task", {"agent": "task", "tasks": [assignment] * chance.randint(1, 2)}),
    ]
    match chance.randrange(12):
        case 0 | 1 | 2:
            return Turn(thinking=words, text=words, tool_calls=chance.sample(tools, chance.randint(1, 3)), pause=pause(chance))
        case 3:
            return Turn(text=words, error="Overloaded", status=529, transient=True, pause=pause(chance))
        case 4:
            return Turn(error="that was wrong", status=400)
        case 5:
            return Turn(text=words, pause=asyncio.Event().wait)  # until the abort
        case _:
            return Turn(thinking=words, text=words, pause=pause(chance))


def leftovers() -> dict[str, Any]:
    """Return what this process has: tasks, descriptors, and running child processes, by number.

    Their names are for the reader: one that has just been started has another name a moment later.
    """
    children: dict[int, str] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if f"\nPPid:\t{os.getpid()}\n" in text:
            children[int(status.parent.name)] = text.splitlines()[0]
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return {"tasks": len(asyncio.all_tasks()), "descriptors": descriptors, "children": children}
