"""What users add, read from their files when it is first needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.extend.places import Place, Places
    from fairlead.extend.skills import Skill
    from fairlead.extend.templates import Template
    from fairlead.session.additions import PromptParts, SkillSummary, SlashCommand


class UserAdditions:
    """Implements `fairlead.session.additions.Additions`. `warn` is told of everything that cannot be used.

    Every agent has one from its start, where it must cost nothing: whatever it needs is loaded with what it reads.
    """

    def __init__(self, find_places: Callable[[], Places], *, skill_commands: bool, warn: Callable[[Sequence[str]], None]) -> None:
        self._find_places = find_places
        self._skill_commands = skill_commands
        self._warn = warn
        self._parts: dict[Path, PromptParts] = {}
        self._skills: dict[Path, Mapping[str, Skill]] = {}
        self._templates: dict[Path, Mapping[str, Template]] = {}

    def prompt_parts(self, cwd: Path) -> PromptParts:
        if cwd not in self._parts:
            self._parts[cwd] = self._read_parts(cwd)
        return self._parts[cwd]

    def commands(self, cwd: Path) -> list[SlashCommand]:
        templates = self._templates_of(cwd)
        skills = self._skills_of(cwd) if self._skill_commands else None
        if not templates and not skills:
            return []
        from fairlead.extend.commands import listed

        return listed(templates, skills or {})

    def expand(self, text: str, cwd: Path) -> str:
        if not text.startswith("/"):
            return text
        from fairlead.extend.commands import expanded

        return expanded(text, self._templates_of(cwd), self._skills_of(cwd) if self._skill_commands else None)

    def skills(self, cwd: Path) -> list[SkillSummary]:
        from fairlead.session.additions import SkillSummary

        return [SkillSummary(each.name, each.description) for each in self._skills_of(cwd).values() if not each.hidden]

    def skill_text(self, name: str, cwd: Path) -> str:
        from fairlead.extend.skills import require_skill

        return require_skill(name, {each.name: each for each in self._skills_of(cwd).values() if not each.hidden}).invoked("")

    def discover(self, skills: Sequence[Path], templates: Sequence[Path]) -> None:
        """Look for skills and templates in these places, too, in place of those that extensions named before."""
        from msgspec.structs import replace

        self._places = replace(self._places, discovered_skills=skills, discovered_templates=templates)
        self.reload()

    def reload(self) -> None:
        self._parts.clear()
        self._skills.clear()
        self._templates.clear()

    @cached_property
    def _places(self) -> Places:
        return self._find_places()

    def _read_parts(self, cwd: Path) -> PromptParts:
        from fairlead.extend.context_files import context_files, prompt_file, told
        from fairlead.session.additions import PromptParts

        skills = self._skills_of(cwd)
        skills_told = ""
        if skills:
            from fairlead.extend.skills import skill_list

            skills_told = skill_list(skills.values())
        home = self._places.home
        if home is None:
            return PromptParts(skills=skills_told)
        problems: list[str] = []
        check = self._places.check
        appended = prompt_file("APPEND_SYSTEM.md", home, cwd, problems, check)
        parts = PromptParts(
            instead=prompt_file("SYSTEM.md", home, cwd, problems, check),
            appended=() if appended is None else (appended,),
            context=told(context_files(home, cwd, problems, check)) if self._places.context_files else "",
            skills=skills_told,
        )
        self._warn(problems)
        return parts

    def _skills_of(self, cwd: Path) -> Mapping[str, Skill]:
        if cwd not in self._skills:
            self._skills[cwd] = {}
            places = _present(self._places.skill_places(cwd))
            if places:
                from fairlead.extend.skills import load_skills

                problems: list[str] = []
                self._skills[cwd] = load_skills(places, problems, self._places.check)
                self._warn(problems)
        return self._skills[cwd]

    def _templates_of(self, cwd: Path) -> Mapping[str, Template]:
        if cwd not in self._templates:
            self._templates[cwd] = {}
            places = _present(self._places.template_places(cwd))
            if places:
                from fairlead.extend.templates import load_templates

                problems: list[str] = []
                self._templates[cwd] = load_templates(places, problems, self._places.check)
                self._warn(problems)
        return self._templates[cwd]


def _present(places: Iterable[Place]) -> list[Place]:
    """Those that are there, and those that somebody asked for by name, who is to be told that they are not."""
    return [place for place in places if place.named is not None or os.path.lexists(place.path)]
