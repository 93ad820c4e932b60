"""What users add, read from their files when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

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
        #: What is being read. An entry that `reload` has removed is read for no one.
        self._reading: dict[Path, asyncio.Future[_Found]] = {}

    def prepare(self, cwd: Path) -> Awaitable[None] | None:
        return None if cwd in self._found else self._prepare(cwd)

    async def _prepare(self, cwd: Path) -> None:
        while cwd not in self._found:
            if cwd not in self._reading:
                self._reading[cwd] = _in_thread(_read, self._places, cwd)
            reading = self._reading[cwd]
            found = await asyncio.shield(reading)
            if self._reading.get(cwd) is reading:
                del self._reading[cwd]
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
        """What was read. What nobody has prepared is read now, and the event loop waits for it."""
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


def _in_thread(read: Callable[[Places, Path], _Found], places: Places, cwd: Path) -> asyncio.Future[_Found]:
    """Read beside everything else that goes on. The thread is a daemon: a process that exits does not wait for it, even if a
    read is stuck in the kernel."""
    import threading

    loop = asyncio.get_running_loop()
    result: asyncio.Future[_Found] = loop.create_future()

    def finish(found: _Found | Exception) -> None:
        if not result.done():
            if isinstance(found, Exception):
                result.set_exception(found)
            else:
                result.set_result(found)

    def work() -> None:
        try:
            found: _Found | Exception = read(places, cwd)
        except Exception as error:  # a bug of ours: whoever waits has to know
            found = error
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            loop.call_soon_threadsafe(finish, found)

    threading.Thread(target=work, name="fairlead-additions", daemon=True).start()
    return result
