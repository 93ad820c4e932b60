"""Suggestions for the arguments of extension commands."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.extend.extended import extended, scripted

from fairlead.session.slash_commands import Completion

PYTHON = """
from fairlead.extension import Completion, Fairlead

def setup(fl: Fairlead) -> None:
    def targets(typed):
        return [each for each in ("dev", "staging", "prod") if each.startswith(typed)]

    async def people(typed, context):
        return [Completion("ann", "Ann", context.cwd.name)]

    @fl.register_command("deploy", complete=targets)
    def deploy(target):
        "Deploy"

    fl.register_command("greet", lambda name: None, complete=people)
    fl.register_command("plain", lambda text: None)
    fl.register_command("broken", lambda text: None, complete=lambda typed: 1 / 0)
    fl.register_command("wrong", lambda text: None, complete=lambda typed: {"value": 1})
"""

SCRIPT = """
  const handler = async () => {};
  const targets = ["dev", "staging", "prod"].map((value) => ({ value, label: value.toUpperCase() }));
  const getArgumentCompletions = (typed: string) => {
    const found = targets.filter(({ value }) => value.startsWith(typed));
    return found.length > 0 ? found : null;
  };
  pi.registerCommand("deploy", { handler, getArgumentCompletions });
  const later = async () => [{ value: "a", label: "a", description: "first" }];
  pi.registerCommand("later", { handler, getArgumentCompletions: later });
  pi.registerCommand("plain", { handler });
  pi.registerCommand("broken", { handler, getArgumentCompletions: () => { throw new Error("No idea.") } });
  pi.registerCommand("wrong", { handler, getArgumentCompletions: () => [{ value: 7 }] as any });
  pi.registerCommand("odd", { handler, getArgumentCompletions: () => "dev" as any });
"""


async def test_a_python_extension_suggests_arguments(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with extended(tmp_path, PYTHON) as it:
        complete = it.agent.session.additions.complete
        assert await complete("deploy", "") == [Completion("dev"), Completion("staging"), Completion("prod")]
        assert await complete("deploy", "st") == [Completion("staging")]
        assert await complete("greet", "a") == [Completion("ann", "Ann", "project")]
        assert await complete("plain", "") == await complete("unknown", "") == []
        with caplog.at_level(logging.WARNING, "fairlead.extend"):
            assert await complete("broken", "") == await complete("wrong", "") == []
        assert it.errors == []
    assert [record.getMessage().partition(" cannot")[0] for record in caplog.records] == [
        "The arguments of /broken",
        "The arguments of /wrong",
    ]


async def test_an_extension_of_pi_suggests_arguments(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with scripted(tmp_path, SCRIPT) as it:
        complete = it.agent.session.additions.complete
        assert await complete("deploy", "s") == [Completion("staging", "STAGING")]
        assert await complete("deploy", "x") == []
        assert await complete("later", "x") == [Completion("a", "a", "first")]
        assert await complete("plain", "") == await complete("odd", "") == []
        with caplog.at_level(logging.WARNING, "fairlead.extend"):
            assert await complete("broken", "") == await complete("wrong", "") == []
        assert it.errors == []
    assert caplog.records[0].getMessage() == "The arguments of /broken cannot be completed: No idea."


async def test_completions_that_never_come_are_given_up(tmp_path: Path) -> None:
    source = """
      pi.registerCommand("slow", { handler: async () => {}, getArgumentCompletions: () => new Promise(() => {}) });
    """
    async with scripted(tmp_path, source, settings='{"extensionTimeoutSeconds": 3}') as it:
        assert await it.agent.session.additions.complete("slow", "") == []
