"""What users add, read from their files when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.config.threads import run_in_thread

if TYPE_CHECKING:
    from fairlead.extend.places import Places
    from fairlead.extend.skills import Skill
    from fairlead.extend.templates import Template
    from fairlead.session.additions import PromptParts, SkillSummary, SlashCommand


class _Found(Struct, frozen=True):
    """Everything there is for work in one directory."""

    parts: PromptParts
    skills: Mapping[str, Skill]
    templates: Mapping[str, Template]
    problems: Sequence[str]


class UserAdditions:
    """Implements `fairlead.session.additions.Additions`. `warn` is told of everything that cannot be used.

    Every agent has one from its start, where it must cost nothing: whatever it needs is loaded with what it reads.
    """

    def __init__(self, find_places: Callable[[], Places], *, skill_commands: bool, warn: Callable[[Sequence[str]], None]) -> None:
        self._find_places = find_places
        self._skill_commands = skill_commands
        self._warn = warn
        self._found: dict[Path, _Found] = {}
        #: What is being read. The result of an entry that `reload` has removed is not used.
        self._reading: dict[Path, asyncio.Future[_Found]] = {}

    def prepare(self, cwd: Path) -> Awaitable[None] | None:
        return None if cwd in self._found else self._prepare(cwd)

    async def _prepare(self, cwd: Path) -> None:
        while cwd not in self._found:
            if cwd not in self._reading:
                # A daemon thread: a process that exits does not wait for it, even if a read is stuck in the kernel.
                self._reading[cwd] = asyncio.ensure_future(run_in_thread(partial(_read, self._places, cwd)))
            reading = self._reading[cwd]
            try:
                found = await asyncio.shield(reading)
            finally:
                is_current = reading.done() and self._reading.get(cwd) is reading
                if is_current:  # also if it failed: then it is tried again the next time
                    del self._reading[cwd]
            if is_current:
                self._keep(cwd, found)

    def prompt_parts(self, cwd: Path) -> PromptParts:
        return self._all(cwd).parts

    def commands(self, cwd: Path) -> list[SlashCommand]:
        found = self._all(cwd)
        if not found.templates and not (found.skills and self._skill_commands):
            return []
        from fairlead.extend.commands import listed

        return listed(found.templates, found.skills if self._skill_commands else {})

    def expand(self, text: str, cwd: Path) -> str:
        if not text.startswith("/"):
            return text
        from fairlead.extend.commands import expanded

        found = self._all(cwd)
        return expanded(text, found.templates, found.skills if self._skill_commands else None)

    def skills(self, cwd: Path) -> list[SkillSummary]:
        from fairlead.session.additions import SkillSummary

        return [SkillSummary(each.name, each.description) for each in self._all(cwd).skills.values() if not each.hidden]

    def skill_text(self, name: str, cwd: Path) -> str:
        from fairlead.extend.skills import require_skill

        return require_skill(name, {each.name: each for each in self._all(cwd).skills.values() if not each.hidden}).invoked("")

    def discover(self, skills: Sequence[Path], templates: Sequence[Path]) -> None:
        """Look for skills and templates in these places, too, in place of those that extensions named before."""
        from msgspec.structs import replace

        self._places = replace(self._places, discovered_skills=skills, discovered_templates=templates)
        self.reload()

    def reload(self) -> None:
        self._found.clear()
        self._reading.clear()

    @cached_property
    def _places(self) -> Places:
        return self._find_places()

    def _all(self, cwd: Path) -> _Found:
        """What was read. If `prepare` was not called, it is read now, and blocks the event loop."""
        if cwd not in self._found:
            self._keep(cwd, _read(self._places, cwd))
        return self._found[cwd]

    def _keep(self, cwd: Path, found: _Found) -> None:
        self._found[cwd] = found
        self._warn(found.problems)


def _read(places: Places, cwd: Path) -> _Found:
    """Read everything for work in `cwd`."""
    from fairlead.session.additions import PromptParts

    problems: list[str] = []
    skills: Mapping[str, Skill] = {}
    templates: Mapping[str, Template] = {}
    skills_told = ""
    if skill_places := places.present(places.skill_places(cwd), cwd):
        from fairlead.extend.skills import load_skills, skill_list

        skills = load_skills(skill_places, problems, places.check)
        skills_told = skill_list(skills.values())
    if template_places := places.present(places.template_places(cwd), cwd):
        from fairlead.extend.templates import load_templates

        templates = load_templates(template_places, problems, places.check)
    home = places.home
    if home is None:
        return _Found(PromptParts(skills=skills_told), skills, templates, problems)
    from fairlead.extend.context_files import Reader, told

    reader = Reader(places, problems)
    appended = reader.prompt_file("APPEND_SYSTEM.md", home, cwd)
    instead = reader.prompt_file("SYSTEM.md", home, cwd)
    context = reader.context_files(home, cwd) if places.context_files else []
    parts = PromptParts(
        instead=instead,
        appended=() if appended is None else (appended,),
        context=told(context),
        context_files=[file.path for file in context],
        skills=skills_told,
    )
    return _Found(parts, skills, templates, problems)
