"""The whole system prompt: our part, what users add, the date and the working directory."""

from __future__ import annotations

from pathlib import Path

from tests.extend.around import Around, a_skill

from fairlead.session.system_prompt import SystemPrompt, system_prompt
from fairlead.tools import DEFAULT_TOOLS
from fairlead.tools.builtin import builtin_tools
from fairlead.tools.workspace import Workspace

SNAPSHOT = Path(__file__).with_name("system_prompt.txt")


def a_workspace(cwd: Path) -> Workspace:
    return Workspace(cwd, {}, log_dir=lambda: cwd, keep_log=lambda _: None)


def prompt(around: Around, tools: tuple[str, ...] = DEFAULT_TOOLS, **given: object) -> str:
    known = builtin_tools(a_workspace(around.cwd))
    added = around.additions().prompt_parts(around.cwd)
    chosen = [known[name] for name in tools]
    return system_prompt(around.cwd, chosen, added=added, date="2026-01-31", **given)  # pyright: ignore[reportArgumentType]


def test_the_system_prompt_is_this_text(around: Around) -> None:
    around.write(
        {
            "user/.fairlead/AGENTS.md": "Be kind.",
            "user/.fairlead/APPEND_SYSTEM.md": "Speak plainly.",
            "repo/app/AGENTS.md": "# App\n\nUse tabs.",
            "repo/app/.agents/skills/release/SKILL.md": a_skill("How to release this app."),
        }
    )
    assert prompt(around).replace(str(around.root), "/ROOT") + "\n" == SNAPSHOT.read_text()


def test_the_system_prompt_of_a_bare_project_is_short(around: Around) -> None:
    assert len(prompt(around)) < 2500


def test_a_given_prompt_replaces_the_users_files(around: Around) -> None:
    around.write({"user/.fairlead/SYSTEM.md": "Mine.", "user/.fairlead/APPEND_SYSTEM.md": "More.", "repo/AGENTS.md": "Tabs."})
    assert prompt(around).startswith("Mine.\n\nMore.\n\nInstructions")
    assert prompt(around, custom="Given.", appended=["Added."]).startswith("Given.\n\nAdded.\n\nInstructions")


def test_without_a_read_tool_the_prompt_lists_no_skills(around: Around) -> None:
    around.write({"repo/.agents/skills/release/SKILL.md": a_skill()})
    assert "<available_skills>" in prompt(around)
    assert "<available_skills>" not in prompt(around, tools=("bash",))


def test_instructions_follow_the_working_directory(around: Around) -> None:
    around.write({"repo/app/AGENTS.md": "Use tabs.", "repo/lib/AGENTS.md": "Use spaces."})
    workspace = a_workspace(around.cwd)
    made = SystemPrompt(workspace, None, (), around.additions())
    assert "Use tabs." in made([])
    workspace.cwd = around.root / "repo/lib"
    assert "Use spaces." in made([]) and "Use tabs." not in made([])
