"""Agents that users define in Markdown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead import Agent
from fairlead.config.home import Home, Level
from fairlead.errors import ConfigError
from fairlead.session.subagents.agent_kinds import AgentDefinition, load_agents, read_agent
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

REVIEWER = """\
---
name: reviewer
description: Looks for mistakes # and nothing else
tools: [read, "bash"]
model: anthropic/claude-haiku-4-5
thinking: low
color: green
---

You review changes.

Be brief.
"""


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_definition_says_what_an_agent_is_and_may(tmp_path: Path) -> None:
    assert read_agent(written(tmp_path / "any.md", REVIEWER), "user") == AgentDefinition(
        name="reviewer",
        description="Looks for mistakes",
        prompt="You review changes.\n\nBe brief.",
        tools=("read", "bash"),
        model="anthropic/claude-haiku-4-5",
        thinking="low",
        source="user",
    )


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("", None),
        ("tools:\n", None),
        ("tools: []\n", ()),
        ("tools: read, grep ,\n", ("read", "grep")),
        ("tools:\n  - read\n  - grep\n", ("read", "grep")),
    ],
)
def test_tools_are_a_list_or_names_with_commas_and_all_if_none_are_named(
    line: str, tools: tuple[str, ...] | None, tmp_path: Path
) -> None:
    agent = read_agent(written(tmp_path / "small.md", f"---\ndescription: d\n{line}---\nDo it."), "project")
    assert agent == AgentDefinition(name="small", description="d", prompt="Do it.", tools=tools, source="project")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("No front matter.", "description: expected a text that says what it is good for."),
        ("---\ndescription: d\n---\n", "expected the agent's instructions after the front matter."),
        ("---\ndescription: [a, b]\n---\nx", "description: expected a text, found a list."),
        ("---\ndescription: d\nthinking: deep\n---\nx", "thinking: expected one of off, minimal, low, medium, high, xhigh"),
        ("---\ndescription: d\nname: a b\n---\nx", "name: expected letters, digits, '-' and '_', found 'a b'."),
        ("---\ndescription: d\ntools: [a\n---\nx", "line 3: while parsing a flow sequence"),
        ("---\ndescription: d\ntools: {a: b}\n---\nx", "tools: expected a text or a list of texts, found an object."),
        ("---\ndescription: d\n", "line 1:"),
    ],
)
def test_a_definition_that_cannot_be_used_says_why(text: str, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path / "agent.md", text)
    with pytest.raises(ConfigError) as error:
        read_agent(path, "user")
    assert str(error.value).startswith(f"{path}: {problem}")
    assert str(error.value).endswith("This agent is left out.")


def test_a_trusted_project_goes_before_the_user_and_the_user_before_what_is_built_in(tmp_path: Path) -> None:
    def define(folder: str, *names: str) -> Path:
        for name in names:
            written(tmp_path / folder / f"{name}.md", f"---\ndescription: {folder}\n---\nx")
        return tmp_path / folder

    folders: list[tuple[Level, Path]] = [("user", define("mine", "task", "both")), ("project", define("ours", "both", "own"))]
    agents, problems = load_agents(folders)
    assert problems == []
    assert {name: agent.source for name, agent in agents.items()} == {
        "task": "user",
        "explore": "bundled",
        "both": "project",
        "own": "project",
    }
    agents, _ = load_agents(folders, ["explore", "both"])
    assert set(agents) == {"task", "own"}


def test_a_project_that_is_not_trusted_replaces_no_agent_and_chooses_no_model(tmp_path: Path) -> None:
    cheap = "---\ndescription: {0}\nname: {1}\nmodel: other/{0}\nthinking: xhigh\n---\nx"
    mine, ours = tmp_path / "home" / "agents", tmp_path / "work" / ".fairlead" / "agents"
    written(mine / "both.md", cheap.format("mine", "both"))
    written(ours / "other-name.md", cheap.format("ours", "both"))
    written(ours / "task.md", "---\ndescription: ours\n---\nx")
    written(ours / "Explore.md", "---\ndescription: ours\n---\nx")
    written(ours / "own.md", cheap.format("ours", "own"))
    written(ours / "plain.md", "---\ndescription: ours\ntools: read\n---\nx")
    folders: list[tuple[Level, Path]] = [("user", mine), ("project", ours)]
    within = (tmp_path / "work").resolve()

    agents, (problem,) = load_agents(folders, within=within, trusted=False)
    assert {name: (agent.source, agent.model, agent.thinking) for name, agent in agents.items()} == {
        "task": ("bundled", None, None),
        "explore": ("bundled", None, None),
        "both": ("user", "other/mine", "xhigh"),
        "own": ("project", None, None),
        "plain": ("project", None, None),
    }
    assert agents["plain"].tools == ("read",)
    assert problem.startswith(f"{ours}: ignored, because the project is not trusted: the agent ")
    for part in ("the agent both,", "the agent task,", "the agent Explore,", "model and thinking of the agent own"):
        assert part in problem
    assert f"fairlead trust {within}`" in problem and "plain" not in problem

    agents, problems = load_agents(folders, within=within, trusted=True)
    assert agents["both"].model == "other/ours" and agents["task"].source == "project" and problems == []
    # The directory of the user, which is no project.
    assert load_agents(folders, trusted=False)[0]["both"].model == "other/ours"


@pytest.mark.parametrize("approve", [None, False, True])
async def test_whether_agents_of_a_project_choose_a_model_goes_by_the_trust_of_the_run(
    tmp_path: Path, approve: bool | None
) -> None:
    written(tmp_path / "work" / ".fairlead" / "agents" / "task.md", "---\ndescription: ours\nmodel: other/x\n---\nx")
    env = {"FAIRLEAD_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    stream = Scripted([Turn(text="x")])
    made = Agent(model=SCRIPTED_MODEL, stream=stream, cwd=tmp_path / "work", env=env, trust=approve, tools=["task"])
    description = made.session.tools["task"].description
    await made.close()
    assert ("ours" in description) == (approve is True)
    assert [warning for warning in made.warnings if "the agent task" in warning] == made.warnings
    assert bool(made.warnings) == (approve is not True)


def test_a_bad_definition_leaves_the_others_alone(tmp_path: Path) -> None:
    written(tmp_path / "bad.md", "x")
    written(tmp_path / "good.md", "---\ndescription: d\n---\nx")
    written(tmp_path / "notes.txt", "x")
    (tmp_path / "folder.md").mkdir()
    agents, problems = load_agents([("user", tmp_path), ("project", tmp_path / "not there")])
    assert set(agents) == {"task", "explore", "good"}
    assert [problem.split(":")[0] for problem in problems] == [str(tmp_path / "bad.md"), str(tmp_path / "folder.md")]


def test_an_isolated_run_reads_no_definitions(tmp_path: Path) -> None:
    home = Home(tmp_path, isolated=True)
    assert home.agents_folders(tmp_path) == ()
    assert [level for level, _ in Home(tmp_path).agents_folders(tmp_path)] == ["user", "project"]
