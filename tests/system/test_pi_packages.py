"""The most used packages of pi that import its SDK, and pi's examples of the SDK, do the same in pi and in fairlead."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from bench.peers import PI_087, PI_15, PI_PACKAGES, PiPackage, node
from tests.system.pi_examples import Example, bash, play, says, tool
from tests.system.public_hosts import BASH, Compare, Home

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
    example = Example(["/names", "//", {"type": "get_session_stats"}, {"type": "export_html"}], [says("An answer.")] * 10)
    theirs, ours = (play(command, Path(__file__).with_name("sdk_names.ts"), example) for command in (PI_15.command(), FAIRLEAD))
    assert len([line for line in theirs if line.startswith("ui ") and "failed: " not in line]) == 26
    assert ours == theirs


#: Those of 0.87: npm lacks libraries of newer ones. 01-minimal prints all fields of events, and fairlead has more of them.
SDK_EXAMPLES = [
    *("02-custom-model", "03-custom-prompt", "04-skills", "05-tools", "06-extensions", "07-context-files"),
    *("08-prompt-templates", "09-api-keys-and-oauth", "10-settings", "11-sessions", "12-full-control", "13-session-runtime"),
]
#: Models of Claude that only newer releases list.
NEWER = re.compile(r"^ *'anthropic/.*-5-5',\n", re.MULTILINE)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", SDK_EXAMPLES)
def test_an_example_of_the_sdk_does_the_same(name: str, compare: Compare) -> None:
    def drive(home: Home) -> str:
        # pi's own module of the SDK resolves its libraries beside it.
        (home.directory / "node_modules").mkdir()
        (home.directory / "node_modules" / "@earendil-works").symlink_to(home.sdk())
        (home.directory / "package.json").write_text('{"type": "module"}')
        # Files that the examples name.
        for extension in ("my-logging-extension.ts", "my-safety-extension.ts"):
            (home.directory / extension).write_text("export default () => {};\n")
        example = (PI_087.package_directory / "examples" / "sdk" / f"{name}.ts").read_text()
        example = example.replace("../../src/index.ts", "@earendil-works/pi-coding-agent")
        (home.directory / "example.ts").write_text(example.replace("/path/to/project", str(home.directory)))
        # Only their list is used: no request reaches the provider.
        home.environment["ANTHROPIC_API_KEY"] = "none"
        return NEWER.sub("", home.run(str(node()), "--experimental-strip-types", "--no-warnings", "example.ts"))

    printed = compare(drive, BASH, {"text": "Answer."}, pi=PI_087, launcher="pi@0.87")
    assert printed.endswith("exit 0\n")
