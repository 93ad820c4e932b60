"""Jobs as callers describe them, and files of tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from fairlead.errors import JobError
from fairlead.protocol.http import fleet

LONGEST_ID = 128
#: An id names a session, a directory and a ref of git. All three accept these.
_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?")
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Job(fleet.Job, frozen=True):
    """A prompt to run once, wherever a worker has room for it. Its fields are those of a line in a file of tasks."""

    @property
    def session_id(self) -> str:
        """The id of the session that the job's conversation is saved in."""
        return self.session or self.id

    def checked(self, folder: Path | None = None) -> Job:
        """Return the job with absolute paths. Paths are relative to `folder`, by default the current directory.

        Raises:
            JobError: A field has a value that cannot be used.
        """
        for name, value in (("id", self.id), ("session", self.session)):
            if value is not None and not is_id(value):
                raise JobError(
                    f"{name}: expected at most {LONGEST_ID} letters, digits, dots, hyphens and underscores, without two dots in a"
                    f" row, got {value!r}."
                )
        if self.key is not None and not _KEY.fullmatch(self.key):
            raise JobError(f"key: expected at most 64 letters, digits, dots, hyphens and underscores, got {self.key!r}.")
        if not self.prompt.strip():
            raise JobError("prompt: it is empty. Say what the agent has to do.")
        self._check_workspace()
        base = Path.cwd() if folder is None else folder
        changes: dict[str, Any] = {}
        if self.workdir is not None:
            changes["workdir"] = _absolute("workdir", self.workdir, base)
        if self.repo is not None and is_local(self.repo):
            changes["repo"] = _absolute("repo", self.repo, base)
        return msgspec.structs.replace(self, **changes)

    def _check_workspace(self) -> None:
        if self.workdir is not None and self.repo is not None:
            raise JobError("workdir and repo contradict each other. Give one of them.")
        if self.workdir is None and self.repo is None:
            raise JobError("The job has no place to work in. Give workdir, or repo and commit.")
        if self.repo is not None and not self.commit:
            raise JobError("repo needs commit: the name or hash of the commit to check out.")
        if self.repo is None and self.commit is not None:
            raise JobError("commit needs repo: the repository that has the commit.")
        if self.commit is not None and (self.commit.startswith("-") or not self.commit.isprintable()):
            raise JobError(f"commit: expected the name or hash of a commit, got {self.commit!r}.")

    def contents(self) -> str:
        """Return the job as JSON, the same for equal jobs."""
        return msgspec.json.encode(self, order="deterministic").decode()


def is_id(text: str) -> bool:
    """Whether a text can be the id of a job or a session."""
    return len(text) <= LONGEST_ID and bool(_ID.fullmatch(text)) and ".." not in text and not text.endswith(".lock")


def _absolute(field: str, path: str, base: Path) -> str:
    """Return a path without `~`, relative to a directory. Raises JobError."""
    if "\0" in path:
        raise JobError(f"{field}: expected a path, got {path!r}.")
    try:
        return str(base / Path(path).expanduser())
    except RuntimeError:
        raise JobError(f"{field}: this machine does not know the home directory in {path!r}. Write the whole path.") from None


def is_local(repo: str) -> bool:
    """Whether a repository is named by a path, not by an address."""
    return "://" not in repo and not re.match(r"[\w.-]+@[\w.-]+:", repo)


def read_tasks(lines: Iterable[bytes], name: str, folder: Path) -> list[Job]:
    """Read jobs from lines of JSON. Empty lines are skipped.

    Args:
        lines: The lines of the file.
        name: The name of the file, for errors.
        folder: What relative paths in the file are relative to.

    Raises:
        JobError: A line is not a task, or two lines have the same id. The text names the line.
    """
    jobs: list[Job] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            job = msgspec.json.decode(line, type=Job).checked(folder)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, JobError) as error:
            reason = str(error).rstrip(".")
            raise JobError(f"{name}, line {number}: {reason}. Nothing was submitted.") from None
        if job.id in seen:
            raise JobError(f"{name}, line {number}: line {seen[job.id]} has the id {job.id!r} too. Nothing was submitted.")
        seen[job.id] = number
        jobs.append(job)
    if not jobs:
        raise JobError(f"{name} has no tasks. Write one object of JSON per line.")
    return jobs
