"""The most used packages of pi that import its SDK do the same in pi and in fairlead."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from bench.peers import PI_15, PI_PACKAGES, PiPackage
from tests.system.pi_examples import Example, bash, play, says, tool

pytestmark = pytest.mark.system

FAIRLEAD = [sys.executable, "-m", "fairlead", "--as", "pi"]
SUBAGENT = (bash("echo of the agent"), says("Found it."), says("done"))
#: What each package is made to do. The others are loaded, and the model is asked something.
STEPS = {
    "@tintinweb/pi-subagents": Example(
        ["hello"], [tool("Agent", prompt="Look", description="look", subagent_type="general-purpose"), *SUBAGENT]
    ),
    "pi-btw": Example(["hello", "/btw what is this?"], [says("Hello."), says("An answer beside.")]),  # prose: verbatim
}


#: What these say when they start depends on the time that a server or a sandbox needs to fail.
SAY_MORE = ("pi-sandbox", "pi-llama-cpp")


def seen(command: list[str], package: PiPackage) -> list[str]:
    """Return what a host sees, without durations and ids."""
    example = STEPS.get(package.package, Example(["hello"], [bash("echo one"), says("done")]))
    [folder] = package.command()
    lines = [re.sub(r"in [\d.]+s|ID-[\w-]+", "X", line) for line in play(command, Path(folder), example)]
    return [line for line in lines if package.package not in SAY_MORE or not line.startswith("ui ")]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("package", PI_PACKAGES, ids=lambda each: each.package)
def test_a_package_does_the_same(package: PiPackage) -> None:
    assert seen(FAIRLEAD, package) == seen(PI_15.command(), package)


@pytest.mark.timeout(240)
def test_names_of_the_sdk_give_the_same() -> None:
    example = Example(["/names"], [says("An answer.")] * 10)
    theirs, ours = (play(command, Path(__file__).with_name("sdk_names.ts"), example) for command in (PI_15.command(), FAIRLEAD))
    assert len([line for line in theirs if line.startswith("ui ") and "failed: " not in line]) == 24
    assert ours == theirs
