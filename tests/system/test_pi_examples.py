"""pi's own example extensions, played to pi and to fairlead: hosts see the same frames, except where docs/pi-extensions.md says
that they differ."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import pytest
from bench.peers import PI_15
from tests.system.conftest import write_launcher
from tests.system.pi_example_steps import STEPS
from tests.system.pi_examples import Example, example_file, examples, play

pytestmark = pytest.mark.system

TABLE = Path(__file__).parent.parent.parent / "docs" / "pi-extensions.md"
#: The rows of the table: an example, and what came of it.
ROW = re.compile(r"^\| `([a-z-]+)` \| (same|terminal only|differs)\b", re.M)
DOCUMENTED = dict(ROW.findall(TABLE.read_text("utf-8")))


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A `pi` that starts fairlead."""
    return str(Path(write_launcher(tmp_path_factory.mktemp("pi"), f"pi@{PI_15.version}")).with_name("pi"))


def test_every_example_is_in_the_table() -> None:
    assert sorted(DOCUMENTED) == examples()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_a_host_sees_what_it_sees_of_pi(name: str, launcher: str) -> None:
    example = STEPS.get(name, Example())
    theirs = play(PI_15.command(), example_file(name), example)
    ours = play([launcher], example_file(name), example)
    if example.any_order:
        theirs, ours = sorted(theirs), sorted(ours)
    if DOCUMENTED[name] == "differs":
        assert ours != theirs, f"{name} is now the same: say so in {TABLE.name}"
    elif ours != theirs:
        sys.stdout.write("\n".join(difflib.unified_diff(theirs, ours, "pi", "fairlead", lineterm="")))
        pytest.fail(f"{name} is not the same as with pi", pytrace=False)
