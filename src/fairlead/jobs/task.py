"""Jobs as callers describe them, and files of tasks."""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from fairlead.errors import JobError
from fairlead.platform.git import is_path
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

    def validate(self, folder: Path | None = None) -> Job:
        """Return the job with absolute paths. Paths are relative to `folder`, by default the current directory.

        Raises:
            JobError: A field has a value that cannot be used.
        """
        try:
            job = msgspec.json.decode(self.contents(), type=Job)  # Python checks no types
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise JobError(f"The job {self.id!r} cannot be submitted: {str(error).rstrip('.')}.") from None
        job = Job(**{name: value for name, value in msgspec.structs.asdict(job).items() if value is not None})
        job._check_names()
        job._check_workspace()
        base = Path.cwd() if folder is None else folder
        changes: dict[str, Any] = {}
        if job.workdir is not None:
            changes["workdir"] = _absolute("workdir", job.workdir, base)
        if job.root is not None:
            changes["root"] = _absolute("root", job.root, base)
        if job.repo is not None and is_path(job.repo):
            changes["repo"] = _absolute("repo", job.repo, base)
        return msgspec.structs.replace(job, **changes)

    def _check_names(self) -> None:
        for name, value in (("id", self.id), ("session", self.session)):
            if value is not None and not is_id(value):
                raise JobError(
                    f"{name}: expected at most {LONGEST_ID} letters, digits, dots, hyphens and underscores, which begin with a"
                    " letter or digit, do not end with a dot or `.lock`, and have no two dots in a row,"
                    f" got {value!r}."
                )
        if self.key is not None:
            check_key(self.key)
        if not self.prompt.strip():
            raise JobError("prompt: it is empty. Say what the agent has to do.")
        for name in ("workdir", "repo", "commit", "model", "container", "root"):
            if getattr(self, name) == "":
                raise JobError(f"{name}: it is empty. Give a value, or leave it out.")

    def _check_workspace(self) -> None:
        if self.workdir is not None and self.repo is not None:
            raise JobError("workdir and repo contradict each other. Give one of them.")
        if self.workdir is None and self.repo is None:
            raise JobError("The job has no place to work in. Give workdir, or repo and commit.")
        if self.repo is not None and not self.commit:
            raise JobError("repo needs commit: the name or hash of the commit to check out.")
        if self.container is not None and (self.container.startswith("-") or not self.container.isprintable()):
            raise JobError(f"container: expected the name of an image, got {self.container!r}.")
        if self.repo is None and self.commit is not None:
            raise JobError("commit needs repo: the repository that has the commit.")
        if self.commit is not None and (self.commit.startswith("-") or not self.commit.isprintable()):
            raise JobError(f"commit: expected the name or hash of a commit, got {self.commit!r}.")

    def contents(self) -> str:
        """Return the job as JSON, the same for equal jobs."""
        return msgspec.json.encode(self, enc_hook=os.fspath, order="deterministic").decode()


def is_id(text: str) -> bool:
    """Whether a text can be the id of a job or a session."""
    return len(text) <= LONGEST_ID and bool(_ID.fullmatch(text)) and ".." not in text and not text.endswith(".lock")


def check_key(name: str) -> None:
    """Raise JobError if a text cannot be the name of a key."""
    if not _KEY.fullmatch(name):
        raise JobError(f"key: expected at most 64 letters, digits, dots, hyphens and underscores, got {name!r}.")


def _absolute(field: str, path: str, base: Path) -> str:
    """Return a path without `~`, relative to a directory. Raises JobError."""
    if "\0" in path:
        raise JobError(f"{field}: expected a path, got {path!r}.")
    try:
        return str(base / Path(path).expanduser())
    except RuntimeError:
        raise JobError(f"{field}: this machine does not know the home directory in {path!r}. Write the whole path.") from None


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
            # Some editors begin a file with a byte order mark.
            job = msgspec.json.decode(line.removeprefix(BOM_UTF8) if number == 1 else line, type=Job).validate(folder)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, JobError) as error:
            raise JobError(f"{name}, line {number}: {_reason(error)}. Nothing was submitted.") from None
        if job.id in seen:
            raise JobError(f"{name}, line {number}: line {seen[job.id]} has the id {job.id!r} too. Nothing was submitted.")
        seen[job.id] = number
        jobs.append(job)
    if not jobs:
        raise JobError(f"{name} has no tasks. Write one object of JSON per line.")
    return jobs


def _reason(error: Exception) -> str:
    """Return why a line is not a task, without a full stop."""
    reason = str(error).rstrip(".")
    if "truncated" in reason:
        return "the JSON is not complete. Write each task on one line"
    if "unknown field" in reason:
        fields = fleet.JobLimits.__struct_fields__ if "$.limits" in reason else Job.__struct_fields__
        return f"{reason}. The fields are {', '.join(fields)}"
    return reason
