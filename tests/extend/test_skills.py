"""Skills: where they are found, what makes one valid, and what the model and a prompt get."""

from __future__ import annotations

from typing import Any

import pytest
from tests.extend.around import Around, a_skill

from fairlead.errors import ConfigError


def names(around: Around, **changes: Any) -> list[str]:
    return [command.name.removeprefix("skill:") for command in around.additions(**changes).commands(around.cwd)]


def test_skills_are_found_in_the_folders_of_the_project_its_repository_and_the_user(around: Around) -> None:
    places = {
        "repo/app/.fairlead/skills/a": ("project", "repo/app/.fairlead"),
        "repo/app/.agents/skills/b": ("project", "repo/app/.agents"),
        "repo/.agents/skills/c": ("project", "repo/.agents"),
        "repo/.claude/skills/d": ("project", "repo/.claude"),
        "user/.fairlead/skills/e": ("user", "user/.fairlead"),
        "user/.agents/skills/f": ("user", "user/.agents"),
        "user/.claude/skills/deep/below/g": ("user", "user/.claude"),
    }
    around.write({f"{place}/SKILL.md": a_skill() for place in places})
    # Above the repository is none of its business, and neither is what a skill brings along.
    around.write({".agents/skills/h/SKILL.md": a_skill(), "repo/.agents/skills/c/more/SKILL.md": a_skill()})
    around.write({f"repo/.agents/skills/{name}/i/SKILL.md": a_skill() for name in (".hidden", "node_modules")})
    commands = around.additions().commands(around.cwd)
    assert [command.name for command in commands] == [f"skill:{letter}" for letter in "abcdefg"]
    for command, (place, (scope, base)) in zip(commands, places.items(), strict=True):
        origin = command.origin
        assert (origin.path, origin.source, origin.scope) == (around.root / place / "SKILL.md", "auto", scope)
        assert origin.base == around.root / base
    assert around.problems == []


def test_outside_of_a_repository_skills_are_looked_for_up_to_the_top(around: Around) -> None:
    (around.root / "repo" / ".git").rmdir()
    around.write({".agents/skills/h/SKILL.md": a_skill()})
    assert names(around) == ["h"]


def test_skills_in_the_home_directory_stay_user_skills_for_projects_below_it(around: Around) -> None:
    around.write({"user/.agents/skills/one/SKILL.md": a_skill()})
    (command,) = around.additions().commands(around.user / "project")
    assert (command.name, command.origin.scope) == ("skill:one", "user")


def test_of_two_skills_with_one_name_the_nearer_one_counts(around: Around) -> None:
    for place in ("user/.fairlead", "repo/.agents", "repo/app/.agents", "repo/app/.fairlead"):
        around.write({f"{place}/skills/same/SKILL.md": a_skill(place)})
        (command,) = around.additions().commands(around.cwd)
        assert command.description == place
    around.write({"mine/same/SKILL.md": a_skill("named")})
    (command,) = around.additions(skills=[around.root / "mine"]).commands(around.cwd)
    assert (command.description, command.origin.source, command.origin.scope) == ("named", "cli", "temporary")


def test_named_skills_are_there_even_if_none_are_looked_for(around: Around) -> None:
    around.write({"mine/one/SKILL.md": a_skill(), "two.md": a_skill(), "user/.fairlead/skills/three/SKILL.md": a_skill()})
    named = [around.root / "mine", around.root / "two.md"]
    assert names(around, skills=named, find_skills=False) == ["one", "two"]
    assert names(around, skills=named, isolated=True) == ["one", "two"]
    assert names(around, find_skills=False) == []


def test_skills_of_the_settings_are_found_and_missing_ones_reported(around: Around) -> None:
    around.write({"user/more/one/SKILL.md": a_skill()})
    assert names(around, settings_skills=["~/more", str(around.root / "none")]) == ["one"]
    assert around.problems == [f"skills in settings.json: {around.root}/none: there is no such file or folder."]


@pytest.mark.timeout(20)
def test_links_are_followed_and_lead_nowhere_twice(around: Around) -> None:
    around.write({"elsewhere/one/SKILL.md": a_skill()})
    skills = around.home / "skills"
    skills.mkdir()
    (skills / "linked").symlink_to(around.root / "elsewhere")
    for name in ("back", "again"):
        (skills / name).symlink_to(skills)
    assert names(around) == ["one"]


def test_front_matter_that_other_programs_write_is_read(around: Around) -> None:
    text = """---
name: release
license: MIT (see LICENSE)
description: >-
  How to release: run the checks,

  then tag.   # not a comment
metadata:
  author: somebody
  tags: [a, b]
allowed-tools: Bash(git:*), Read
---
Body.
"""
    around.write({"user/.agents/skills/release/SKILL.md": text})
    (command,) = around.additions().commands(around.cwd)
    assert command.description == "How to release: run the checks,\nthen tag.   # not a comment"
    assert around.problems == []


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("description: |\n  First.\n  Second.", "First.\nSecond."),
        ("description: first\n  second # comment", "first second"),
        ("description:\n  below it", "below it"),
        ("description: Use when: needed", "Use when: needed"),
        ('description: "quoted\n  on: two"', "quoted on: two"),
    ],
)
def test_a_description_may_have_several_lines(around: Around, written: str, read: str) -> None:
    around.write({"user/.agents/skills/s/SKILL.md": f"---\n{written}\n---\n"})
    (command,) = around.additions().commands(around.cwd)
    assert command.description == read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Just a text.", "description: expected a text that says what the skill is good for."),
        ("---\nname: s\ndescription:\n---\n", "description: expected a text that says what the skill is good for."),
        ("---\ndescription: [a]\n---\n", "description: expected a text, found a list."),
        ("---\ndescription:\n  a: b\n---\n", "description: expected a text, found an object."),
        (
            "---\ndescription: 'open\n---\n",
            "line 2: while scanning a quoted scalar: found unexpected end of stream. "
            "Put texts with special characters in single quotes.",
        ),
        ("---\ndescription: x\n", "line 1: the front matter that begins here has no end. Put a line --- after it."),
    ],
)
def test_an_invalid_skill_file_is_reported_and_left_out(around: Around, text: str, said: str) -> None:
    around.write({"user/.agents/skills/s/SKILL.md": text, "user/.agents/skills/t/SKILL.md": a_skill()})
    assert names(around) == ["t"]
    assert around.problems == [f"{around.user}/.agents/skills/s/SKILL.md: {said} This skill is left out."]


def test_a_name_that_cannot_be_is_replaced_by_that_of_the_folder(around: Around) -> None:
    around.write({"user/.agents/skills/good/SKILL.md": a_skill(name="Not Good")})
    assert names(around) == ["good"]
    assert around.problems[0].endswith("found 'Not Good'. The skill is called good.")
    around.write({"user/.agents/skills/good/SKILL.md": a_skill(), "user/.agents/skills/Bad_One/SKILL.md": a_skill()})
    assert names(around) == ["good"]
    assert around.problems[-1].endswith("found 'Bad_One'. This skill is left out.")


def test_the_prompt_lists_skill_names_descriptions_and_paths(around: Around) -> None:
    around.write(
        {
            "user/.agents/skills/one/SKILL.md": a_skill("Reads <b> & more."),
            "user/.agents/skills/two/SKILL.md": a_skill(disable_model_invocation="true"),
        }
    )
    told = around.additions().prompt_parts(around.cwd).skills
    assert told.endswith(
        "<available_skills>\n  <skill>\n    <name>one</name>\n    <description>Reads &lt;b&gt; &amp; more.</description>\n"
        f"    <location>{around.user}/.agents/skills/one/SKILL.md</location>\n  </skill>\n</available_skills>"
    )
    assert names(around) == ["one", "two"]


def test_a_long_description_is_cut(around: Around) -> None:
    around.write({"user/.agents/skills/one/SKILL.md": a_skill("x" * 2000)})
    (command,) = around.additions().commands(around.cwd)
    assert command.description == "x" * 1024
    assert "longer than 1024 characters" in around.problems[0]


def test_a_prompt_that_asks_for_a_skill_stands_for_it(around: Around) -> None:
    around.write({"user/.agents/skills/one/SKILL.md": a_skill(body="# One\n\nDo it.")})
    folder = around.user / ".agents/skills/one"
    block = f'<skill name="one" location="{folder}/SKILL.md">\nReferences are relative to {folder}.\n\n# One\n\nDo it.\n</skill>'
    additions = around.additions()
    assert additions.expand("/skill:one", around.cwd) == block
    assert additions.expand("/skill:one  with   $1 care\n", around.cwd) == f"{block}\n\nwith   $1 care"
    assert additions.expand("/skill:one\nin detail", around.cwd) == f"{block}\n\nin detail"


def test_a_skill_that_is_not_there_never_reaches_the_model_as_a_word(around: Around) -> None:
    additions = around.additions()
    with pytest.raises(ConfigError, match="no skill of the name 'one'"):
        additions.expand("/skill:one", around.cwd)
    around.write({"user/.agents/skills/two/SKILL.md": a_skill()})
    additions.reload()
    with pytest.raises(ConfigError, match="The skills are: two"):
        additions.expand("/skill:one", around.cwd)
    additions.expand("/skill:two", around.cwd)
    (around.user / ".agents/skills/two/SKILL.md").unlink()
    with pytest.raises(ConfigError, match="there is no such file"):
        additions.expand("/skill:two", around.cwd)


def test_without_skill_commands_the_model_still_knows_the_skills(around: Around) -> None:
    around.write({"user/.agents/skills/one/SKILL.md": a_skill()})
    additions = around.additions(skill_commands=False)
    assert additions.commands(around.cwd) == []
    assert additions.expand("/skill:one", around.cwd) == "/skill:one"
    assert "<name>one</name>" in additions.prompt_parts(around.cwd).skills


def test_skills_follow_the_working_directory(around: Around) -> None:
    around.write({"repo/app/.agents/skills/one/SKILL.md": a_skill(), "repo/lib/.claude/skills/two/SKILL.md": a_skill()})
    additions = around.additions()
    assert [command.name for command in additions.commands(around.cwd)] == ["skill:one"]
    assert [command.name for command in additions.commands(around.root / "repo/lib")] == ["skill:two"]
