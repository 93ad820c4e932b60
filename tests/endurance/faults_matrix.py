"""Makes each fault happen at each stage of a run of a real agent, and checks outcome, process, file, children and leftovers."""

from __future__ import annotations

import random
import re
import tempfile
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.endurance.entries import Figures, Options
from tests.endurance.faults_host import HOST_FAULTS
from tests.endurance.faults_machine import MACHINE_FAULTS, MOUNTED_FAULTS
from tests.endurance.faults_order import Order
from tests.endurance.faults_provider import FINAL, FINE, IDLE, PROVIDER_FAULTS, STAGES, FaultyProvider, ProviderFault
from tests.endurance.faults_scene import COMPACTION_ERRORS, Scene, SceneFault, can_mount, check_nothing_is_left, scene
from tests.support.host import PATIENCE, Frame, Host
from tests.support.session_file import missing, read_strictly, repeated, text_of

NAME = "faults"
TITLE = "Each fault of a provider, the machine and the host at each stage of a run"
STARTS_PROCESSES = True

AT_ONCE = 3
DIALECTS = ("pi", "omp", "xcsh")
#: How often a compaction is repeated that failed while connections were refused.
MOST_COMPACTIONS = 40
#: How many cells the short form has.
SHORT = 12
#: A hang is noticed soon, retries wait little, and compaction keeps little.
SETTINGS: Mapping[str, Any] = {
    "httpIdleTimeoutMs": 3000,
    "retry": {"baseDelayMs": 100},
    "compaction": {"keepRecentTokens": 50},
}
FAULTS: tuple[ProviderFault | SceneFault, ...] = (*PROVIDER_FAULTS, *MACHINE_FAULTS, *HOST_FAULTS)


class Cell(NamedTuple):
    """A fault at a stage, seen by a host of a dialect."""

    fault: ProviderFault | SceneFault
    stage: str
    dialect: str

    def __str__(self) -> str:
        return f"{self.fault.name} / {self.stage} / {self.dialect}"


def cells() -> list[Cell]:
    """Return all cells of the table. The dialects take turns."""
    faults = (*FAULTS, *MOUNTED_FAULTS) if can_mount() else FAULTS
    pairs = [(fault, stage) for fault in faults for stage in STAGES if stage in fault.stages]
    return [Cell(*pair, DIALECTS[number % len(DIALECTS)]) for number, pair in enumerate(pairs)]


def run(options: Options) -> Figures:
    chosen = cells()
    if options.short:
        chosen = random.Random(options.seed).sample(chosen, SHORT)
    problems = play_all(chosen)
    print(table(chosen, problems))
    done: dict[str, int | float | str] = {
        "faults": len({cell.fault.name for cell in chosen}),
        "stages": len({cell.stage for cell in chosen}),
        "cells": len(chosen),
        "failed": len(problems),
    }
    return Figures(done, [f"{cell}: {problem}" for cell, problem in problems.items()])


def play_all(chosen: Sequence[Cell]) -> dict[Cell, str]:
    """Play cells, and return what went wrong in which of them."""
    problems: dict[Cell, str] = {}
    with tempfile.TemporaryDirectory(prefix="fairlead-faults-") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        playing = {cell: pool.submit(play, cell, Path(folder, str(number))) for number, cell in enumerate(chosen)}
        for cell, played in playing.items():
            if error := played.exception():
                problems[cell] = "".join(traceback.format_exception(error, limit=-3))
    return problems


def table(chosen: Sequence[Cell], problems: Mapping[Cell, str]) -> str:
    """Return the stages by faults: how many cells passed, and how many of them failed."""
    counts: Counter[tuple[str, str]] = Counter((cell.fault.name, cell.stage) for cell in chosen)
    failed: Counter[tuple[str, str]] = Counter((cell.fault.name, cell.stage) for cell in problems)
    names = list(dict.fromkeys(cell.fault.name for cell in chosen))
    width = max(map(len, names))
    rows = [" " * width + "".join(f" {stage:>11}" for stage in STAGES)]
    for name in names:
        row = name.ljust(width)
        for stage in STAGES:
            count, wrong = counts[name, stage], failed[name, stage]
            row += f" {'.' if not count else f'{wrong} of {count} !' if wrong else count:>11}"
        rows.append(row)
    return "\n".join(rows)


def play(cell: Cell, root: Path) -> None:
    """Play one cell. Raises AssertionError if anything is not as it should be."""
    root.mkdir()
    fault = cell.fault if isinstance(cell.fault, ProviderFault) else None
    command = cell.fault.command if isinstance(cell.fault, SceneFault) else "echo done"
    if cell.stage == "tool":
        command = f"echo > {root}/began; read _ < {root}/go; {command}"
    with FaultyProvider(cell.stage, fault, command) as provider:
        small_disk = isinstance(cell.fault, SceneFault) and cell.fault.small_disk
        with scene(root, cell.dialect, provider, SETTINGS, small_disk=small_disk) as found:
            _Play(cell, found).play()
        check_nothing_is_left(found)


class _Play:
    """The run of one cell."""

    def __init__(self, cell: Cell, scene: Scene) -> None:
        self.fault, self.stage = cell.fault, cell.stage
        self.scene, self.host, self.provider = scene, scene.host, scene.provider
        self.exits = cell.fault.exits if isinstance(cell.fault, SceneFault) else None

    def play(self) -> None:
        self.host.prompt("first", id="first")
        if self.stage == "before":
            self._inject()
        if not self._has_exited:
            self._run()
        if not self._has_exited:
            self._compact()
        if self._has_exited:
            assert self.host.exit_code() == self.exits, (self.host.exit_code(), self.host.stderr())
        elif self.fault.blocks_next:
            self._check_aborted_wait()
        else:
            self._check_next(self.host)
        self._check_frames()
        if isinstance(self.fault, SceneFault) and self.fault.check is not None:
            self.fault.check(self.scene)
        self._check_file()
        with self.scene.start() as again:
            self._check_next(again)

    @property
    def _has_exited(self) -> bool:
        return self.exits is not None and self.provider.reached.is_set()

    def _inject(self) -> None:
        """Make the fault happen, unless the provider does so itself."""
        if isinstance(self.fault, SceneFault):
            self.fault.do(self.scene)
        elif self.stage in IDLE:
            self.provider.misbehave_when_idle()
        self.provider.reached.set()
        self.provider.release()

    def _await_stage(self, since: int) -> None:
        """Wait until the stage is reached, and make the fault happen."""
        if self.stage == "tool":
            self.scene.began.wait()
        elif isinstance(self.fault, ProviderFault):
            return
        elif self.stage == "retry":
            self.host.until("auto_retry_start", since=since)
        else:
            assert self.provider.reached.wait(PATIENCE), "the stage was not reached"
        self._inject()
        self.scene.go.open()

    def _run(self) -> None:
        """Prompt, and check how the run ends."""
        since = self.host.mark()
        self.host.send({"id": "go", "type": "prompt", "message": "go"})
        if self.stage not in ("before", "compaction"):
            self._await_stage(since)
        if self._has_exited:
            return
        if self.stage == "tool":  # it may take long
            self.host.until("tool_execution_end", since=since)
        self.host.until("agent_settled", since=since)
        if self.stage != "compaction":
            self._undo()
        ends = [frame["message"] for frame in self.host.frames[since:] if frame["type"] == "message_end"]
        last = [message for message in ends if message["role"] == "assistant"][-1]
        found = (last["stopReason"], text_of(last), last.get("errorMessage"))
        if isinstance(self.fault, SceneFault) and self.fault.is_abort:
            # In the pause before a retry, an attempt has failed.
            assert found[0] in (("error", "aborted") if self.stage == "retry" else ("aborted",)), found
        elif self.stage in ("subagent", "compaction"):
            assert found == ("stop", FINAL, None), found
        elif self.fault.error is None:
            assert found[0] == "stop" and re.fullmatch(self.fault.final, found[1]) and not found[2], found
        else:
            assert found[0] == "error" and re.search(self.fault.error, found[2] or ""), found

    def _undo(self) -> None:
        if isinstance(self.fault, SceneFault) and self.fault.undo is not None:
            self.fault.undo(self.scene)

    def _compact(self) -> None:
        """Compact, and check the answer."""
        self.host.send({"id": "compact", "type": "compact"})
        if self.stage == "compaction":
            self._await_stage(self.host.mark())
        if self._has_exited:
            return
        if self.fault.blocks_next and self.stage != "compaction":
            self.host.request("abort")
        answer = self.host.response("compact")
        if self.stage == "compaction":
            self._undo()
        if answer["success"] or answer["error"].startswith(COMPACTION_ERRORS):
            return
        assert self.stage == "compaction" and self.fault.fails_compaction, answer
        assert len(answer["error"]) > len("Summarization failed: "), answer
        if not self.fault.blocks_next:
            assert any(self.host.request("compact")["success"] for _ in range(MOST_COMPACTIONS))

    def _check_next(self, host: Host) -> None:
        """Check that an agent answers, also a prompt, and leaves as it should."""
        state = host.request("get_state")["data"]
        assert not state["isStreaming"] and not state["isCompacting"] and not state["pendingMessageCount"], state
        frames = host.prompt("and now?", id="next")
        last = [frame["message"] for frame in frames if frame["type"] == "message_end"][-1]
        assert text_of(last) == FINE, last
        assert host.leave() == 0, host.stderr()
        assert "Traceback" not in host.stderr(), host.stderr()

    def _check_aborted_wait(self) -> None:
        """Check that a prompt that waits for the provider can be aborted."""
        since = self.host.mark()
        self.host.send({"id": "next", "type": "prompt", "message": "and now?"})
        self.host.until("message_end", since=since)
        assert self.host.request("abort")["success"]
        self.host.until("agent_settled", since=since)
        assert self.host.leave() == 0

    def _check_frames(self) -> None:
        """Check that each run settled once, and each command has one answer."""
        order = Order(holds_end=self.scene.dialect != "pi")
        order.hear_all(self.host.frames)
        assert not order.problems, order.problems
        if self.exits is None:
            answers = Counter(frame.get("id") for frame in self.host.frames if frame["type"] == "response")
            assert all(answers[id] == 1 for id in ("first", "go", "compact", "next")), answers
            assert order.settled == 3 and not order.is_running, order.settled

    def _check_file(self) -> None:
        """Check that the session's file can be read and has every message that the host was told."""
        lines = read_strictly(self.scene.file)
        told: list[Frame] = [frame["message"] for frame in self.host.frames if frame["type"] == "message_end"]
        if not (isinstance(self.fault, SceneFault) and self.fault.is_lossy):
            assert not missing(told, lines.messages), missing(told, lines.messages)
        assert not repeated(lines.user_texts())
