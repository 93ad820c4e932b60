"""The most used packages of pi that import its SDK, and pi's examples of the SDK, do the same in pi and in fairlead."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from bench.peers import PI_087, PI_15, PI_PACKAGES, PI_SUBAGENTS, PiPackage, node
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


#: The first two agents work at the same time, the third after them.
WORKFLOW = """
const both = await runs.all(["a", "b"].map((key) => ({ key, agent: "delegate", task: "Look", context: "fresh" })));
const last = await runs.run("c", { agent: "delegate", task: both.map((each) => each.output).join(), context: "fresh" });
return last.output;
"""
ONE = {"agent": "delegate", "task": "Look", "context": "fresh"}
RUNS = {
    "foreground": [tool("subagent", **ONE, **{"async": False}), bash("echo of the agent"), says("Found it."), says("done")],
    "workflow": [
        tool("subagent", workflowScript=WORKFLOW, **{"async": False}),
        *(says("Found it."), says("Found it."), says("Found all."), says("done")),
    ],
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", RUNS)
def test_runs_of_pi_subagents_do_the_same(kind: str) -> None:
    """Compared with 0.87, which has all its libraries on npm."""
    [folder] = PI_SUBAGENTS.command()
    example = Example(["hello"], RUNS[kind], patience=120)
    # Its programs need a newer Node than fairlead.
    ours = ["env", f"PATH={node().parent}:{os.environ['PATH']}", *FAIRLEAD]

    def results(command: list[str]) -> list[str]:
        lines = play(command, Path(folder), example)
        # Either of the two agents that work at the same time may end first.
        return [
            re.sub(r"[\d.]+m?s\b|--tmp-[\w-]+|\brun [ab]:", "X", line)
            for line in lines
            if line.startswith(("tool ", "custom ", "error "))
        ]

    theirs = results(PI_087.command())
    assert any("Found" in line for line in theirs)
    assert results(ours) == theirs


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
