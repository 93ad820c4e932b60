"""docs/tour.md shows what a real run does: the functions, their order, and a diagram and a list that agree."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

import pytest
from tests.support.host import Host
from tests.support.stage import bash, calls, says
from tests.support.surroundings import surroundings

from fairlead.testing import ProviderServer

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "fairlead"
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: A call in the diagram, and an item of the list.
ARROW = re.compile(r"^ *\w+->>\w+: (\d+)\. (\S+)$", re.MULTILINE)
ITEM = re.compile(r"^(\d+)\.(?: \[`([\w.]+)`\]\(\.\./src/fairlead/([\w/]+\.py)\)(?: gets `(\w+)`)?)?", re.MULTILINE)

READER, LOOP, WRITER = "fairlead-stdin", "MainThread", "fairlead-stdout"


@dataclass(frozen=True)
class Function:
    """A function of ours: its file inside the package, and its qualified name."""

    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} in {self.file}"


@dataclass(frozen=True)
class Step:
    """A step of the tour: a function, and the event that it gets if the tour says so."""

    function: Function
    event: str | None = None

    def is_made_by(self, call: Call) -> bool:
        return self.function == call.function and self.event in (None, call.event)

    def __str__(self) -> str:
        return f"{self.function} with {self.event}" if self.event else str(self.function)


@dataclass(frozen=True)
class Call:
    """A call in a real run. `event` is the class of the event that it got, or a dash."""

    thread: str
    function: Function
    event: str


def test_the_diagram_and_the_list_have_the_same_steps() -> None:
    listed = [(number, step.function.name) for number, step in enumerate(list_steps(page()), 1)]
    assert diagram_steps(page()) == listed


def test_every_function_of_the_tour_exists() -> None:
    functions = [step.function for step in list_steps(page())]
    assert [str(function) for function in functions if function.name not in defined_in(SOURCE / function.file)] == []


def test_a_real_run_calls_the_functions_in_the_order_of_the_tour(trace: Sequence[Call]) -> None:
    assert differences(list_steps(page()), trace) == []


def test_each_message_is_in_the_file_before_its_message_end_is_sent(trace: Sequence[Call]) -> None:
    writes, tells = (only(list_steps(page()), name) for name in ("LinesFile._append", "EventFrames.send_event"))
    order = [
        "written" if call.function == writes else "sent"
        for call in trace
        if call.function == writes or (call.function == tells and call.event == "MessageEnd")
    ]
    # The prompt, the call of bash, the note that it starts and its result, and the last answer.
    assert order == [*["written", "sent"] * 2, "written", *["written", "sent"] * 2]


def test_a_step_that_does_not_happen_is_found(trace: Sequence[Call]) -> None:
    steps = list_steps(page())
    uncalled = Step(Function("wire/pi/basic_handlers.py", "_abort"))
    assert differences([*steps[:8], uncalled, *steps[8:]], trace) == [f"step 9: {uncalled} was not called"]


def test_two_steps_in_the_wrong_order_are_found(trace: Sequence[Call]) -> None:
    steps = list_steps(page())
    threads = {call.function: call.thread for call in trace}
    new = [step.function not in [other.function for other in steps[:place]] for place, step in enumerate(steps)]
    for place in range(len(steps) - 1):
        one, other = steps[place : place + 2]
        if WRITER in (threads[one.function], threads[other.function]) or not (new[place] or new[place + 1]):
            continue  # the event loop does not wait for the writer, and a repeated call can be any of several
        swapped = [*steps[:place], other, one, *steps[place + 2 :]]
        assert differences(swapped, trace), f"steps {place + 1} and {place + 2}"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """The calls of a run in which the model uses bash, from the arrival of the prompt."""
    root = tmp_path_factory.mktemp("tour")
    file = root / "trace.txt"
    with ProviderServer([calls(bash("echo hello")), says("It says hello.")]) as provider:
        around = surroundings(root / "around", provider.url)
        traced = [sys.executable, str(Path(__file__).with_name("traced_fairlead.py")), str(file)]
        flags = ["--mode", "rpc", "--dialect", "pi", "--model", "fake/fake-1"]
        with Host([*traced, *flags], around.cwd, around.env) as host:
            host.prompt("What does echo hello say?")
            assert host.leave() == 0
    lines = (line.split("\t") for line in file.read_text().splitlines())
    made = [Call(thread, Function(path, name), event) for thread, path, name, event in lines if thread in (READER, LOOP, WRITER)]
    first = list_steps(page())[0]
    return list(dropwhile(lambda call: not first.is_made_by(call), made))


def page() -> str:
    return (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")


def diagram_steps(text: str) -> list[tuple[int, str]]:
    (diagram,) = DIAGRAM.findall(text)
    return [(int(number), name) for number, name in ARROW.findall(diagram)]


def list_steps(text: str) -> list[Step]:
    """The steps of the numbered list. Each has its number and begins with a link to its function."""
    steps: list[Step] = []
    for number, name, file, event in ITEM.findall(text):
        assert int(number) == len(steps) + 1, f"step {number} comes after step {len(steps)}"
        assert name, f"step {number} does not begin with a link to a function"
        steps.append(Step(Function(file, name), event or None))
    assert steps
    return steps


def only(steps: Iterable[Step], name: str) -> Function:
    """The function of this name in the tour."""
    (function,) = {step.function for step in steps if step.function.name == name}
    return function


def defined_in(file: Path) -> set[str]:
    """The qualified names of the functions in a file."""

    def names(body: Iterable[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from names(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + node.name

    return set(names(ast.parse(file.read_text(encoding="utf-8")).body, "")) if file.exists() else set()


def differences(steps: Sequence[Step], trace: Sequence[Call]) -> list[str]:
    """What the tour says and the trace does not show.

    The first mention of a function is its first call, and a later mention is its next call. A step has to come after the step
    before it. What the writer does is compared with the step that caused it, but not with the next one, because the event loop
    does not wait for the writer.
    """
    found: list[str] = []
    mentioned: set[Function] = set()
    last = -1
    for number, step in enumerate(steps, 1):
        start = last + 1 if step.function in mentioned else 0
        mentioned.add(step.function)
        place = next((place for place in range(start, len(trace)) if step.is_made_by(trace[place])), None)
        if place is None:
            found.append(f"step {number}: {step} was not called{' again' if start else ''}")
        elif place <= last:
            found.append(f"step {number}: {step} was called before step {number - 1}")
        elif trace[place].thread != WRITER:
            last = place
    return found
