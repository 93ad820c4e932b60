"""An agent in this process, with extensions in real files and a record of its events."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

from fairlead import Agent, AgentOptions
from fairlead.core import events as e
from fairlead.core.messages import ToolCall, UserMessage, user_text
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


def calling(name: str, **arguments: Any) -> Turn:
    return Turn(tool_calls=[ToolCall("c1", name, arguments)])


def user_texts(messages: Sequence[object]) -> list[str]:
    """What the user said, of all `messages`."""
    return [user_text(message) for message in messages if isinstance(message, UserMessage)]


class Extended:
    """An agent, the events it emitted, and ways to look at them."""

    def __init__(self, agent: Agent, model: Scripted) -> None:
        self.agent = agent
        self.model = model
        self.told: list[e.Event] = []
        agent.session.subscribe(self.told.append)

    @property
    def errors(self) -> list[tuple[str, str, str]]:
        return [
            (Path(each.extension_path).name, each.event, each.error) for each in self.told if isinstance(each, e.ExtensionError)
        ]

    @property
    def results(self) -> list[tuple[str, bool]]:
        """The text of each tool result, and whether it is an error."""
        ends = [each for each in self.told if isinstance(each, e.ToolEnd)]
        return [("".join(getattr(block, "text", "") for block in end.result.content), end.is_error) for end in ends]

    def notes(self, custom_type: str) -> list[Any]:
        """The data of the custom entries of this type."""
        log = self.agent.session.history.log
        mine = [entry for entry in log.plain(log.entries()) if entry.get("customType") == custom_type]
        return [entry.get("data") for entry in mine]

    async def command(self, text: str) -> None:
        assert (await self.agent.ask(text)).text == ""
        await self.agent.idle()


@asynccontextmanager
async def extended(
    root: Path, *sources: str, turns: Sequence[Turn] = (), settings: str | None = None, suffix: str = "py", **options: Any
) -> AsyncGenerator[Extended]:
    """An agent with an extension per source: `one.py`, `two.py` and so on, in `root`; or with another suffix than `py`."""
    home, cwd = root / "home", root / "project"
    home.mkdir(exist_ok=True)
    cwd.mkdir(exist_ok=True)
    if settings is not None:
        (home / "settings.json").write_text(settings)
    paths = [root / f"{name}.{suffix}" for name, _ in zip(("one", "two", "three"), sources, strict=False)]
    for path, source in zip(paths, sources, strict=True):
        path.write_text(dedent(source))
    model = Scripted(list(turns) or [Turn(text="ok")] * 5)
    env = {**os.environ, "FAIRLEAD_HOME": str(home), "HOME": str(root)}
    agent = Agent(AgentOptions(model=SCRIPTED_MODEL, stream=model, cwd=cwd, env=env, extensions=paths, **options))
    async with agent, asyncio.timeout(30):
        yield Extended(agent, model)


def script(root: Path, body: str) -> str:
    """The source of a TypeScript extension whose factory has this body."""
    return f"""
import {{ appendFileSync }} from "node:fs";
import type {{ ExtensionAPI }} from "@earendil-works/pi-coding-agent";
import {{ Type }} from "typebox";
const note = (value: unknown) => appendFileSync({json.dumps(str(root / "notes"))}, JSON.stringify(value) + "\\n");
export default async function (pi: ExtensionAPI) {{
{body}
}}
"""


@asynccontextmanager
async def scripted(root: Path, body: str, *, turns: Sequence[Turn] = (), **options: Any) -> AsyncGenerator[Extended]:
    """An agent with one TypeScript extension, whose factory has this body."""
    async with extended(root, script(root, body), turns=turns, suffix="ts", **options) as it:
        yield it


def notes(root: Path) -> list[Any]:
    file = root / "notes"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
