"""Glob and Grep."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from fairlead.core.lenient import scrub_text
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import PATH, integer, repair_arguments, string
from fairlead.tools.background import Stop, in_thread
from fairlead.tools.claude.files import Machine, closed_schema, relative_name
from fairlead.tools.files.targets import stat_target
from fairlead.tools.search import contents, globs, searchers, walk
from fairlead.tools.truncate import head

_MOST_FILES = 100
_MOST_LINES = 250
#: No search finds more.
_MOST = 1_000_000
_NOTHING = "No files found"
#: The names of files of a type, as ripgrep's `--type` knows them.
_TYPES = {
    "c": "*.{c,h}",
    "cpp": "*.{cpp,cc,cxx,hpp,hh,h}",
    "css": "*.{css,scss}",
    "go": "*.go",
    "html": "*.{htm,html}",
    "java": "*.java",
    "js": "*.{js,jsx,mjs,cjs,vue}",
    "json": "*.json",
    "md": "*.{md,markdown}",
    "py": "*.{py,pyi}",
    "ruby": "*.rb",
    "rust": "*.rs",
    "sh": "*.{sh,bash,zsh}",
    "sql": "*.sql",
    "toml": "*.toml",
    "ts": "*.{ts,tsx,mts,cts}",
    "txt": "*.txt",
    "xml": "*.xml",
    "yaml": "*.{yaml,yml}",
}


def glob_tool(machine: Machine) -> Tool:
    return Tool(
        name="Glob",
        description="Find files by a glob pattern such as **/*.py, the oldest first, 100 at most. Skips files ignored by git.",
        parameters=closed_schema(
            {"pattern": string("The glob pattern"), "path": string("The directory to search; the working directory if left out")},
            "pattern",
        ),
        run=partial(_run_glob, machine),
        kind="search",
        title=lambda arguments: f"Find {arguments['pattern']}",
        idempotent=True,
        subject=PATH,
        harmless=True,
        snippet="Find files by name",
        timeout=machine.workspace.default_timeout,
        prepare=_prepare_glob,
    )


def _prepare_glob(arguments: dict[str, Any]) -> dict[str, Any]:
    """Have a pattern that is a path name its folder as the path, which is what approvals are about."""
    arguments = repair_arguments(arguments)
    pattern = arguments.get("pattern")
    if isinstance(pattern, str) and pattern.startswith("/"):
        fixed = pattern.split("*", 1)[0].rpartition("/")[0] or "/"
        arguments = {**arguments, "pattern": pattern[len(fixed) :].lstrip("/"), "path": fixed}
    return arguments


async def _run_glob(machine: Machine, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    workspace, began = machine.workspace, time.monotonic()
    pattern, path = arguments["pattern"], arguments.get("path") or "."
    root = workspace.locate(path, None if arguments.get("path") is None else context.target)
    glob = globs.Glob(pattern)

    def find(stop: Stop) -> ToolResult:
        there = stat_target(root)
        if there is None or not stat.S_ISDIR(there.st_mode):
            raise ToolError(f"Directory does not exist: {root.named}")
        found: list[tuple[int, str]] = []
        for entry in walk.walk(root.real, workspace.cwd, stop):
            if not entry.is_folder and glob.matches(entry.parts):
                name = os.path.join(str(root.named), *entry.parts)  # noqa: PTH118
                found.append((_changed_at(name), name))
        found.sort()
        names = [scrub_text(relative_name(workspace, name)) for _, name in found]
        shown = names[:_MOST_FILES]
        details = {
            "filenames": shown,
            "durationMs": round((time.monotonic() - began) * 1000),
            "numFiles": len(shown),
            "truncated": len(names) > len(shown),
        }
        more = f"\n({len(names) - len(shown)} more files match. Use a narrower pattern.)" if len(names) > len(shown) else ""
        return ToolResult.text("\n".join(shown) + more if names else _NOTHING, details)

    return await in_thread(context.cancel, find)


def _changed_at(name: str) -> int:
    try:
        return os.stat(name).st_mtime_ns  # noqa: PTH116
    except OSError:
        return 0


def grep_tool(machine: Machine) -> Tool:
    switch = {"type": "boolean"}
    return Tool(
        name="Grep",
        description=(
            "Search the contents of files for a regular expression. output_mode says what comes back: the files (if left out),"
            " the matching lines, or a count for each file. Skips files ignored by git, and binary files."
        ),
        parameters=closed_schema(
            {
                "pattern": string("The regular expression"),
                "path": string("The file or directory to search; the working directory if left out"),
                "glob": string("Only files that match this, such as *.py"),
                "type": string("Only files of this type, such as py or rust"),
                "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"]},
                "-A": integer("Lines to show after each match"),
                "-B": integer("Lines to show before each match"),
                "-C": integer("Lines to show around each match"),
                "context": integer("The same as -C"),
                "-n": {**switch, "description": "Show line numbers; true if left out"},
                "-i": {**switch, "description": "Upper and lower case are the same"},
                "-o": {**switch, "description": "Not used: whole lines are shown"},
                "head_limit": integer("How many lines or files at most; 250 if left out, 0 for no limit"),
                "offset": integer("How many lines or files to leave out first"),
                "multiline": {**switch, "description": "Not used: a match is within one line"},
            },
            "pattern",
        ),
        run=partial(_run_grep, machine),
        kind="search",
        title=lambda arguments: f"Search for {arguments['pattern']}",
        idempotent=True,
        subject=PATH,
        harmless=True,
        snippet="Search file contents",
        timeout=machine.workspace.default_timeout,
        prepare=repair_arguments,
    )


async def _run_grep(machine: Machine, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    workspace = machine.workspace
    root = workspace.locate(arguments.get("path") or ".", context.target)
    kind = arguments.get("type")
    if kind is not None and kind not in _TYPES:
        raise ToolError(f"There is no file type {kind!r}. The types are: {', '.join(_TYPES)}. Or use glob.")
    around = arguments.get("-C") or arguments.get("context") or max(arguments.get("-A") or 0, arguments.get("-B") or 0)
    mode = arguments.get("output_mode", "files_with_matches")
    wanted = searchers.Wanted(
        pattern=arguments["pattern"],
        ignore_case=bool(arguments.get("-i")),
        literal=False,
        context=min(max(around, 0), 50) if mode == "content" else 0,
        limit=1 if mode == "files_with_matches" else _MOST,
    )
    report = _Report(partial(relative_name, workspace), arguments)
    glob = arguments.get("glob") or _TYPES.get(kind or "", "")
    await contents.search(workspace, root, wanted, glob, report, context.cancel)
    return report.result(mode)


class _Report:
    """Implements `fairlead.tools.search.contents.Report`."""

    def __init__(self, name: Any, arguments: dict[str, Any]) -> None:
        self.full = False
        self._name = name
        self._numbers = arguments.get("-n", True)
        self._skip = max(arguments.get("offset") or 0, 0)
        limit = arguments.get("head_limit")
        self._limit = _MOST_LINES if limit is None else limit or _MOST
        self._files: list[str] = []
        self._lines: list[str] = []
        self._counts: list[int] = []

    def add(self, path: str, lines: Sequence[searchers.Line]) -> None:
        name = scrub_text(self._name(path))
        self._files.append(path)
        self._counts.append(sum(line.matches for line in lines))
        before = 0
        for line in lines:
            if before and line.number > before + 1:
                self._lines.append("--")
            before = line.number
            mark = ":" if line.matches else "-"
            number = f"{line.number}{mark}" if self._numbers else ""
            self._lines.append(f"{name}{mark}{number}{line.text}")

    def result(self, mode: str) -> ToolResult:
        names = [scrub_text(self._name(path)) for path in self._files]
        details: dict[str, Any]
        if mode == "content":
            lines = self._cut(self._lines)
            shown = head("\n".join(lines)).content
            details = {"mode": mode, "numFiles": 0, "filenames": [], "content": shown, "numLines": len(lines)}
            return ToolResult.text(shown or "No matches found", details)
        if mode == "count":
            counted = [f"{name}:{count}" for name, count in zip(names, self._counts, strict=True)]
            text, total = "\n".join(self._cut(counted)), sum(self._counts)
            details = {"mode": mode, "numFiles": len(names), "filenames": [], "content": text, "numMatches": total}
            files = f"{len(names)} file{'' if len(names) == 1 else 's'}"
            return ToolResult.text(f"{text}\n\nFound {total} matches in {files}." if names else "No matches found", details)
        newest = sorted(self._files, key=lambda path: (-_changed_at(path), path))
        shown_names = self._cut([scrub_text(self._name(path)) for path in newest])
        details = {"mode": mode, "filenames": shown_names, "numFiles": len(shown_names)}
        found = f"Found {len(shown_names)} file{'' if len(shown_names) == 1 else 's'}"
        return ToolResult.text("\n".join([found, *shown_names]) if names else _NOTHING, details)

    def _cut(self, items: list[str]) -> list[str]:
        return items[self._skip : self._skip + self._limit]
