"""Instructions, skills and prompt templates, read from files when they are first needed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.home import CLAUDE_FOLDER, ClaudeFiles, ClaudeSource, Home
from fairlead.config.project_files import Budget, is_owned
from fairlead.core.lenient import scrub_text
from fairlead.errors import ConfigError
from fairlead.extend import skills
from fairlead.extend import skills as skill_files
from fairlead.platform.process import run_in_thread
from fairlead.session.additions import PromptParts, SkillSummary
from fairlead.session.slash_commands import SlashCommand

if TYPE_CHECKING:
    from fairlead.extend.search_paths import SearchPaths
    from fairlead.extend.skills import Skill, Template

#: The names of context files. The first one that a directory has is used.
CONTEXT_NAMES = ("AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")

#: The largest total size of all context files, in bytes.
MAX_CONTEXT_BYTES = 4 * 1024 * 1024

#: The files with instructions for Claude Code in a folder, and whose they are.
_CLAUDE_NAMES: Sequence[tuple[ClaudeSource, str]] = (
    ("project", "CLAUDE.md"),
    ("project", f"{CLAUDE_FOLDER}/CLAUDE.md"),
    ("local", "CLAUDE.local.md"),
)
#: How far imports of imports are followed.
_MOST_IMPORTS = 5

_INTRODUCTION = "Instructions from the user and the project. Where two of them differ, the later one applies."


class ContextFile(Struct, frozen=True):
    """A context file and its text."""

    path: Path
    text: str


class ContextReader:
    """Reads the instructions for work in one directory. A sentence for each file that cannot be read is added to `problems`."""

    def __init__(self, search_paths: SearchPaths, problems: list[str]) -> None:
        self._search_paths = search_paths
        self._problems = problems
        #: The limit for all context files together.
        self._budget = Budget(size=MAX_CONTEXT_BYTES)

    def context_files(self, home: Path, cwd: Path) -> list[ContextFile]:
        """Read the context file of the home, then those of all directories from the root to `cwd`."""
        folders = dict.fromkeys([home, *reversed(cwd.parents), cwd])
        found = (self._context_file(folder, cwd, is_home=folder == home) for folder in folders)
        return [file for file in found if file is not None and file.text]

    def claude_files(self, claude: ClaudeFiles, cwd: Path) -> list[ContextFile]:
        """Read the instructions for Claude Code: those of the user, then those of all directories from the root to `cwd`."""
        found: dict[str, ContextFile] = {}
        if "user" in claude.sources:
            self._follow(claude.folder / CONTEXT_NAMES[2], None, claude, found)
        for folder in (*reversed(cwd.parents), cwd):
            for source, name in _CLAUDE_NAMES:
                path = folder / name
                if source not in claude.sources or path.parent == claude.folder or not os.path.lexists(path):
                    continue
                if is_owned(path.parent, cwd):
                    self._follow(path, folder, claude, found)
                else:
                    self._problems.append(f"{path}: not read: {path.parent} belongs to another user than you and {cwd}.")
        return [file for file in found.values() if file.text]

    def _follow(
        self, path: Path, project: Path | None, claude: ClaudeFiles, found: dict[str, ContextFile], deeper: int = _MOST_IMPORTS
    ) -> None:
        """Add a file to `found`, and the files that it imports. A file that is there is not read again."""
        real = os.path.realpath(path)
        text = None if real in found else self._text(path, project)
        if text is None:
            return
        found[real] = ContextFile(path, text)
        for imported in skill_files.find_imports(text, path.parent, self._search_paths.user) if "@" in text else ():
            if not deeper:
                self._problems.append(
                    f"{path}: {imported} is not imported, because it is more than {_MOST_IMPORTS} imports away."
                )
                continue
            # A project that is trusted may import what the user has written for it.
            is_own = project is not None and not self._is_within(imported, project) and claude.is_trusted()
            self._follow(imported, None if is_own else project, claude, found, deeper - 1)

    def _is_within(self, path: Path, project: Path) -> bool:
        within = self._search_paths.boundary(project)
        return within is None or Path(os.path.realpath(path)).is_relative_to(within)

    def prompt_file(self, name: str, home: Home, cwd: Path) -> str | None:
        """Return the text of the file `name` in the project, or else in the home, or None if neither exists."""
        for folder in reversed(home.project_folders(cwd)):
            text = self._text(folder / name, cwd)
            if text is not None:
                return text
        return self._text(home.root / name, None)

    def _context_file(self, folder: Path, cwd: Path, *, is_home: bool) -> ContextFile | None:
        for name in CONTEXT_NAMES:
            path = folder / name
            if not is_home and os.path.lexists(path) and not is_owned(folder, cwd):
                self._problems.append(f"{path}: not read: {folder} belongs to another user than you and {cwd}.")
                return None
            text = self._text(path, None if is_home else folder)
            if text is not None:
                return ContextFile(path, text)
        return None

    def _text(self, path: Path, project: Path | None) -> str | None:
        """Return the text of a file, or None if there is none.

        `project` is the directory that the file belongs to, or None for a file of the user.
        """
        if not os.path.lexists(path):  # the file is usually missing, and this check is much cheaper than a failed read
            return None
        within = None if project is None else self._search_paths.boundary(project)
        try:
            data = self._budget.read(path, self._search_paths.check, within=within)
        except ConfigError as error:
            self._problems.append(str(error))
            return None
        return None if data is None else data.decode("utf-8", "replace").strip()


def context_prompt(files: Sequence[ContextFile]) -> str:
    """Return the part of the system prompt that holds these files."""
    if not files:
        return ""
    parts = [f'<instructions path="{scrub_text(str(file.path))}">\n{file.text}\n</instructions>' for file in files]
    return "\n\n".join([_INTRODUCTION, *parts])


#: What the slash command of a skill begins with.
_SKILL_COMMAND = "skill:"
#: What a model is told about skills that a tool loads.
_SKILL_TOOL = (
    "Skills tell you how certain work is done. When a task fits the description of one, call the tool Skill with its name before "
    "you begin."
)


class _LoadedAdditions(Struct, frozen=True):
    """Everything that was found for one working directory."""

    parts: PromptParts
    skills: Mapping[str, Skill]
    templates: Mapping[str, Template]
    problems: Sequence[str]
    #: Those of the problems that are about templates.
    template_problems: Sequence[str] = ()


class UserAdditions:
    """Implements `fairlead.session.additions.Additions`. `warn` is called for everything that cannot be used.

    Every agent has one from its start, where it must cost nothing: it imports what it needs when it reads the files.
    """

    def __init__(
        self, find_search_paths: Callable[[], SearchPaths], *, skill_commands: bool, warn: Callable[[Sequence[str]], None]
    ) -> None:
        self._find_search_paths = find_search_paths
        self._skill_commands = skill_commands
        self._warn = warn
        #: One sentence for each template that could not be used when they were last read.
        self.failed_templates: Sequence[str] = ()
        self._loaded: dict[Path, _LoadedAdditions] = {}
        #: Reads in progress. If `reload` removes one, its result is not used.
        self._reading: dict[Path, asyncio.Future[_LoadedAdditions]] = {}

    def prepare(self, cwd: Path) -> Awaitable[None] | None:
        return None if cwd in self._loaded else self._prepare(cwd)

    async def _prepare(self, cwd: Path) -> None:
        while cwd not in self._loaded:
            if cwd not in self._reading:
                # On a daemon thread: a process that exits does not wait for it, even if a read hangs in the kernel.
                self._reading[cwd] = asyncio.ensure_future(run_in_thread(partial(_read, self._search_paths, cwd)))
            reading = self._reading[cwd]
            try:
                found = await asyncio.shield(reading)
            finally:
                is_current = reading.done() and self._reading.get(cwd) is reading
                if is_current:  # also after a failure, so that the next call tries again
                    del self._reading[cwd]
            if is_current:
                self._store(cwd, found)

    def prompt_parts(self, cwd: Path) -> PromptParts:
        return self._get(cwd).parts

    def commands(self, cwd: Path) -> list[SlashCommand]:
        found = self._get(cwd)
        if not found.templates and not (found.skills and self._skill_commands):
            return []
        return _commands(found.templates, found.skills if self._skill_commands else {}, self._prefix)

    @property
    def _prefix(self) -> str:
        """What the slash command of a skill begins with."""
        return _SKILL_COMMAND if self._search_paths.claude is None else ""

    def expand(self, text: str, cwd: Path) -> str:
        if not text.startswith("/"):
            return text
        found = self._get(cwd)
        return _expand(text, found.templates, found.skills if self._skill_commands else None, self._prefix)

    def skills(self, cwd: Path) -> list[SkillSummary]:
        return [SkillSummary(each.name, each.description) for each in self._get(cwd).skills.values() if not each.hidden]

    def skill_text(self, name: str, cwd: Path, arguments: str = "") -> str:
        return skills.require_skill(
            name, {each.name: each for each in self._get(cwd).skills.values() if not each.hidden}
        ).make_prompt(arguments)

    def discover(self, skills: Sequence[Path], templates: Sequence[Path]) -> None:
        """Also look for skills and templates in these paths. They replace those of an earlier call."""
        self._search_paths = replace(self._search_paths, discovered_skills=skills, discovered_templates=templates)
        self.reload()

    def reload(self) -> None:
        self._loaded.clear()
        self._reading.clear()

    @cached_property
    def _search_paths(self) -> SearchPaths:
        return self._find_search_paths()

    def _get(self, cwd: Path) -> _LoadedAdditions:
        """Return what was read for `cwd`. If `prepare` was not called, read it now, which blocks the event loop."""
        if cwd not in self._loaded:
            self._store(cwd, _read(self._search_paths, cwd))
        return self._loaded[cwd]

    def _store(self, cwd: Path, found: _LoadedAdditions) -> None:
        self._loaded[cwd] = found
        self.failed_templates = found.template_problems
        self._warn(found.problems)


def _read(search_paths: SearchPaths, cwd: Path) -> _LoadedAdditions:
    """Read everything for work in `cwd`."""
    problems: list[str] = []
    template_problems: list[str] = []
    skills: Mapping[str, Skill] = {}
    templates: Mapping[str, Template] = {}
    skills_text = ""
    if skill_paths := search_paths.present(search_paths.skill_paths(cwd), cwd):
        skills = skill_files.load_skills(skill_paths, problems, search_paths.check)
        introduction = skill_files.INTRODUCTION if search_paths.claude is None else _SKILL_TOOL
        skills_text = skill_files.skills_prompt(skills.values(), introduction)
    if template_paths := search_paths.present(search_paths.template_paths(cwd), cwd):
        templates = skill_files.load_templates(template_paths, template_problems, search_paths.check)
        problems += template_problems
    home = search_paths.home
    if home is None:
        return _LoadedAdditions(PromptParts(skills=skills_text), skills, templates, problems, template_problems)
    reader = ContextReader(search_paths, problems)
    if (claude := search_paths.claude) is not None:
        context = reader.claude_files(claude, cwd) if search_paths.context_files else []
        paths = [file.path for file in context]
        parts = PromptParts(context=context_prompt(context), context_files=paths, skills=skills_text)
        return _LoadedAdditions(parts, skills, templates, problems, template_problems)
    appended = reader.prompt_file("APPEND_SYSTEM.md", home, cwd)
    instead = reader.prompt_file("SYSTEM.md", home, cwd)
    context = reader.context_files(home.root, cwd) if search_paths.context_files else []
    parts = PromptParts(
        instead=instead,
        appended=() if appended is None else (appended,),
        context=context_prompt(context),
        context_files=[file.path for file in context],
        skills=skills_text,
    )
    return _LoadedAdditions(parts, skills, templates, problems, template_problems)


def _commands(templates: Mapping[str, Template], skills: Mapping[str, Skill], prefix: str) -> list[SlashCommand]:
    """Return the slash commands of these templates and skills."""
    prompts = [SlashCommand(each.name, each.description, "prompt", each.origin, each.hint) for each in templates.values()]
    return prompts + [
        SlashCommand(prefix + each.name, each.description, "skill", each.origin, each.hint)
        for each in skills.values()
        if each.is_command and (prefix or each.name not in templates)
    ]


def _expand(text: str, templates: Mapping[str, Template], skills: Mapping[str, Skill] | None, prefix: str) -> str:
    """Return the prompt that `text`, which begins with a slash, stands for.

    An unknown name is plain text, because it may be a path. `/skill:` cannot be a path, and the name of a missing skill must not
    reach the model as text: that raises ConfigError. If `skills` is None, `/skill:name` is plain text too. Skills of Claude Code
    have no prefix.
    """
    words = text[1:].split(None, 1)
    if not words or not text.startswith(words[0], 1):
        return text
    name, arguments = words[0], words[1].strip() if len(words) > 1 else ""
    if name in templates:
        return templates[name].fill(arguments)
    if skills is None or not name.startswith(prefix) or (not prefix and (name not in skills or not skills[name].is_command)):
        return text
    return skill_files.require_skill(name.removeprefix(prefix), skills).make_prompt(arguments)
