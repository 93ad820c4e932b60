"""Folders that take long to read: starting, aborting and exiting do not wait for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.extend.around import Around, a_skill
from tests.support.stage import another, says, stage

from fairlead.config.home import Level
from fairlead.session.rules.stream_rules import MOST_RULES, load_rules


@pytest.mark.parametrize(
    "name",
    [
        ".fairlead/skills",
        ".agents/skills",
        ".claude/skills",
        ".fairlead/prompts",
        ".fairlead/agents",
        ".fairlead/rules",
        ".fairlead/extensions",
    ],
)
def test_a_folder_that_is_a_link_to_everything_is_not_walked(tmp_path: Path, name: str) -> None:
    with stage(tmp_path, "omp", [says("ok")], flags=["--approve"]) as host:
        assert host.leave() == 0
        path = host.around.cwd / name
        path.parent.mkdir()
        path.symlink_to("/")
        with another(host, "omp", "--approve", "--verbose") as later:
            assert later.request("get_available_commands")["data"]["commands"] == []
            later.prompt("go")
            told = "".join(str(frame) for frame in later.frames if frame["type"] == "extension_error")
            assert f"{path}: not read: it leads to /, which is outside the project" in later.stderr() + told


@pytest.mark.parametrize(
    "name",
    [".fairlead/settings.json", ".fairlead/SYSTEM.md", "AGENTS.md", ".mcp.json", ".fairlead/rules/x.md", ".fairlead/agents/x.md"],
)
@pytest.mark.parametrize("kind", ["kmsg", "pipe"])
def test_a_file_that_never_ends_does_not_keep_the_agent_from_working(tmp_path: Path, name: str, kind: str) -> None:
    with stage(tmp_path, "omp", [says("ok")]) as host:
        assert host.leave() == 0
        path = host.around.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/proc/kmsg")
        with another(host, "omp", "--approve", "--verbose") as later:
            later.prompt("go")
            assert str(path) in later.stderr()
            later.signal(signal.SIGTERM)
            assert later.exit_code() == 143


def test_skills_are_looked_for_only_so_deep_and_among_so_many(around: Around) -> None:
    deep = around.cwd / ".agents" / "skills" / Path(*"abcdefghij")
    around.write({f"{deep.relative_to(around.root)}/SKILL.md": a_skill()})
    around.write({f"{deep.relative_to(around.root)}/SKILL.md": a_skill(name="deep")})
    assert [each.name for each in around.additions().skills(around.cwd)] == ["deep"]
    (deep / "SKILL.md").unlink()
    around.write({f"{deep.relative_to(around.root)}/k/SKILL.md": a_skill()})
    assert around.additions().skills(around.cwd) == []
    assert "more than 10 levels deep" in around.problems[-1]


def test_a_project_with_too_many_skills_takes_nothing_from_the_users(around: Around) -> None:
    for number in range(600):
        around.write({f"repo/app/.agents/skills/s{number}/SKILL.md": a_skill()})
    around.write({"user/.agents/skills/mine/SKILL.md": a_skill()})
    names = [each.name for each in around.additions().skills(around.cwd)]
    assert len(names) == 501 and "mine" in names
    assert sum("too many files of this kind" in problem for problem in around.problems) == 100


def test_links_that_lead_back_are_followed_once(around: Around) -> None:
    skills = around.cwd / ".agents" / "skills"
    around.write({"repo/app/.agents/skills/a/SKILL.md": a_skill(), "repo/app/.agents/skills/b/c/SKILL.md": a_skill()})
    (skills / "b" / "up").symlink_to("..")
    (skills / "again").symlink_to(around.cwd)
    assert [each.name for each in around.additions().skills(around.cwd)] == ["a", "c"]


def test_instructions_are_bounded_together(around: Around) -> None:
    folder = around.cwd
    for _ in range(6):
        (folder / "AGENTS.md").write_text("x" * (1 << 20))
        folder = folder / "deeper"
        folder.mkdir()
    context = around.additions().prompt_parts(folder).context
    assert 4 << 20 <= len(context) < 5 << 20
    assert len(around.problems) == 2


def test_a_project_has_so_many_rules_and_no_more(tmp_path: Path) -> None:
    for number in range(MOST_RULES + 5):
        (tmp_path / f"r{number:03}.md").write_text("---\ncondition: x\n---\nNo.")
    rules, problems = load_rules([("project", tmp_path)], tmp_path)
    assert len(rules) == MOST_RULES and len(problems) == 5


@pytest.mark.parametrize(
    "field", ["condition: [" + "a, " * 101 + "]", "globs: " + "a," * 101, "scope: " + "text," * 101, "globs: " + "a" * 1001]
)
def test_a_rule_has_so_many_conditions_and_no_more(tmp_path: Path, field: str) -> None:
    (tmp_path / "r.md").write_text(f"---\n{field}\n---\nNo.")
    rules, (problem,) = load_rules([("project", tmp_path)], tmp_path)
    assert rules == [] and ("expected at most 100" in problem or "longer than 1000" in problem)


def test_a_rule_of_a_project_that_is_not_trusted_does_not_replace_the_users(tmp_path: Path) -> None:
    for level in ("user", "project"):
        (tmp_path / level).mkdir()
        (tmp_path / level / "same.md").write_text(f"---\ncondition: x\n---\n{level}")
    folders: list[tuple[Level, Path]] = [("user", tmp_path / "user"), ("project", tmp_path / "project")]
    (rule,), (problem,) = load_rules(folders, tmp_path, trusted=False)
    assert rule.content == "user" and "the project is not trusted" in problem
    (rule,), problems = load_rules(folders, tmp_path, trusted=True)
    assert rule.content == "project" and problems == []


def test_thousands_of_unusable_files_are_not_thousands_of_warnings(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("ok")], env={"FAIRLEAD_LOG": "warning"}) as host:
        prompts = host.around.cwd / ".fairlead" / "prompts"
        prompts.mkdir(parents=True)
        for number in range(300):
            (prompts / f"{number}.md").symlink_to("/etc/passwd")
        host.prompt("go")
        assert len(host.stderr().splitlines()) == 21
        assert "280 more warnings like these are not shown." in host.stderr()


#: A read that never returns stands for a file system that does not answer.
STUCK = """
import asyncio, sys, threading
from fairlead import Agent

class Stuck:
    def __init__(self): self.began = threading.Event()
    def check_reading(self, path, found): self.began.set(); threading.Event().wait()
    def check_writing(self, path, found): pass

async def main():
    agent = Agent(model="fake/fake-1", cwd=sys.argv[1])
    agent.session.host.workspace.guard = stuck = Stuck()
    run = asyncio.ensure_future(agent.ask("go"))
    listing = asyncio.ensure_future(agent.session.additions.prepare())
    await asyncio.to_thread(stuck.began.wait)
    await agent.session.abort()
    for outcome in await asyncio.gather(run, listing, return_exceptions=True):
        print(type(outcome).__name__)
    await agent.close()

asyncio.run(main())
"""


def test_an_abort_and_the_end_of_the_process_do_not_wait_for_a_read_that_is_stuck(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("ok")], files={"AGENTS.md": "Use tabs."}) as host:
        argv = [sys.executable, "-c", STUCK, str(host.around.cwd)]
        done = subprocess.run(argv, env=dict(host.around.env), capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout, done.returncode) == ("RunAborted\nRunAborted\n", 0), done.stderr
        assert host.provider.requests == []
