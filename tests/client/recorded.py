"""Sessions of real agents, recorded in `tests/golden`, and an agent that plays them to a client.

The client does what the recorded host did, and the agent sends what the real one sent, in the same order. The player itself
answers only the commands that clients also send by themselves. To `get_state` it says whether more of the run follows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.client.fake_agent import PATIENCE, FakeAgent, Frame, fake_agent

from fairlead.client import Client, Result, Run
from fairlead.client.decoding import Event
from fairlead.errors import AgentGone, ClientError, CommandRefused

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
PROMPTS = ("prompt", "abort_and_prompt")
#: Lines of a host that get no response.
REPLIES = ("host_tool_update", "host_tool_result", "host_uri_result", "extension_ui_response")
#: Commands that a client also sends by itself.
OWN = ("get_state", "negotiate_protocol")
#: Frames that end a part of a run.
ENDS = ("agent_end", "auto_retry_end", "auto_compaction_end", "compaction_end", "agent_settled", "session_settled")


def recorded_sessions(program: str) -> list[str]:
    """Return the names of a program's recordings in which the host sent commands only, and each was answered."""
    names: list[str] = []
    for path in sorted((GOLDEN / program).glob("*.jsonl")):
        rows = _rows(path)
        sent = [row["frame"] for row in rows if row["dir"] == "in"]
        answered = {str(row["frame"].get("id")) for row in rows if _is_response(row)}
        if sent and all("type" in frame and (frame["type"] in REPLIES or str(frame.get("id")) in answered) for frame in sent):
            names.append(path.stem)
    return names


@dataclass
class Played:
    """What the client made of a recording."""

    #: The outcome of each prompt, in order.
    outcomes: list[Result | ClientError] = field(default_factory=list[Result | ClientError])
    events: list[Event] = field(default_factory=list[Event])
    #: What the agent sent.
    frames: list[Frame] = field(default_factory=list[Frame])
    #: Whether the recorded host closed the connection during the last run.
    cut_off: bool = False


class Player:
    """Plays a recording to one client."""

    def __init__(self, program: str, name: str, client: Client, agent: FakeAgent) -> None:
        self._rows = [row for row in _rows(GOLDEN / program / f"{name}.jsonl") if not _is_own(row)]
        self._client = client
        self._agent = agent
        self._arrived: asyncio.Queue[Frame] = asyncio.Queue()
        self._place = 0

    async def play(self) -> Played:
        """Play all of it. Returns what the client made of it, once every prompt has an outcome."""
        played = Played()
        stream = self._client.events()
        reading = asyncio.create_task(self._read())
        prompts: list[asyncio.Task[Result | ClientError]] = []
        others: list[asyncio.Task[None]] = []
        ids: dict[str, Any] = {}
        for place, row in enumerate(self._rows):
            self._place = place + (row["dir"] == "out")
            frame = row["frame"]
            if row["dir"] == "out":
                known = (_is_response(row) and frame["success"]) or "id" in frame
                sent = {**frame, "id": ids.get(str(frame.get("id")), frame.get("id"))} if known else frame
                played.frames.append(sent)
                self._agent.say(sent)
                continue
            if frame["type"] in REPLIES:
                continue
            if frame["type"] in PROMPTS:
                if prompts and not self._in_a_run(place):
                    await asyncio.wait(prompts, timeout=PATIENCE)  # the recorded host, too, waited for the end of the run
                prompts.append(asyncio.create_task(self._prompt(frame)))
            else:
                others.append(asyncio.create_task(self._request(frame)))
            ids[str(frame.get("id"))] = (await asyncio.wait_for(self._arrived.get(), PATIENCE))["id"]
        self._place = len(self._rows)
        played.cut_off = self._in_a_run(len(self._rows))
        if played.cut_off:
            self._agent.leave()
        played.outcomes = await asyncio.wait_for(asyncio.gather(*prompts), PATIENCE)
        await asyncio.wait_for(asyncio.gather(*others), PATIENCE)
        await self._client.stop()
        with suppress(AgentGone):
            async for event in stream:
                played.events.append(event)
        await reading
        return played

    async def _read(self) -> None:
        """Read what the client sends. Answer its questions for the state."""
        with suppress(asyncio.IncompleteReadError):
            while frame := await self._agent.next_line():
                if frame["type"] in OWN:
                    self._agent.answer(frame, data={"isStreaming": self._is_busy(), "isCompacting": False})
                elif frame["type"] not in REPLIES:
                    self._arrived.put_nowait(frame)

    def _is_busy(self) -> bool:
        for row in self._rows[self._place :]:
            if row["dir"] == "in" and row["frame"]["type"] in PROMPTS:
                return False
            if row["dir"] == "out" and row["frame"]["type"] in ENDS:
                return True
        return False

    def _in_a_run(self, place: int) -> bool:
        """Whether the recorded agent was at work at a place in the recording."""
        marks = ("agent_start", "auto_retry_start", *ENDS)
        sent = [row["frame"]["type"] for row in self._rows[:place] if row["dir"] == "out" and row["frame"]["type"] in marks]
        return bool(sent) and sent[-1] in ("agent_start", "auto_retry_start")

    async def _prompt(self, frame: Mapping[str, Any]) -> Result | ClientError:
        try:
            if frame["type"] == "prompt":
                run: Run = await self._client.prompt(frame["message"], streaming_behavior=frame.get("streamingBehavior"))
            else:
                run = await self._client.abort_and_prompt(frame["message"])
            return await run
        except ClientError as error:
            return error

    async def _request(self, frame: Mapping[str, Any]) -> None:
        fields = {key: value for key, value in frame.items() if key not in ("id", "type")}
        with suppress(CommandRefused):
            await self._client.request(frame["type"], timeout=None, **fields)


async def play(program: str, name: str) -> Played:
    """Play a recording to a new client."""
    async with fake_agent() as (client, agent):
        return await Player(program, name, client, agent).play()


def _rows(path: Path) -> list[Frame]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def _is_response(row: Frame) -> bool:
    return row["dir"] == "out" and row["frame"]["type"] == "response"


def _is_own(row: Frame) -> bool:
    frame = row["frame"]
    return frame.get("type") in OWN or frame.get("command") in OWN
