"""Jobs as callers describe them, files of tasks, and the root of a job.

The root is the directory that holds everything on a worker's disk that the job names. A server with `--root` gives one to each
job. It checks the job before it queues it, and the worker checks it again before it runs it: links may have changed, and the
worker may be another machine.
"""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from fairlead.core.secrets import without_credentials
from fairlead.errors import JobError
from fairlead.platform.programs import is_path
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


#: Addresses of repositories on a network, as git takes them.
_NETWORK = re.compile(r"(?:https?|ssh|git)://|[\w.-]+@[\w.-]+:(?!:)")
#: The name of an image in a registry. podman takes addresses of files too, such as `dir:/etc` and `docker-archive:x.tar`.
_IMAGE = re.compile(r"(?:[\w.-]+(?::\d+)?/)?[\w.-]+(?:/[\w.-]+)*(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?", re.ASCII)
_TRANSPORTS = ("dir:", "oci:", "oci-archive:", "docker-archive:", "docker-daemon:", "containers-storage:", "ostree:", "sif:")
#: What leads git from a repository to other places: files with a path in them, and what may be a link.
_POINTERS = (".git", "commondir", "objects/info/alternates", "info/alternates")
_PARTS = ("HEAD", "config", "objects", "objects/info", "objects/pack", "packed-refs", "refs")
#: The most bytes of a file with a path in it.
_MOST_BYTES = 64 * 1024
#: How many places a repository may lead to.
_MOST_PLACES = 200


def check_root(job: Job) -> None:
    """Raise JobError if a job with a root names a place outside it. Links are resolved."""
    if job.root is None:
        return
    root = Path(os.path.realpath(job.root))
    if job.container is not None and (job.container.startswith(_TRANSPORTS) or not _IMAGE.fullmatch(job.container)):
        raise JobError(f"container: expected the name of an image in a registry, got {job.container!r}.")
    if job.workdir is not None:
        _check("workdir", job.workdir, Path(job.workdir), root)
    if job.repo is not None:
        path = _path_of(job.repo)
        for place in () if path is None else _places(path):
            _check("repo", without_credentials(job.repo), place, root)


def resolve(job: Job) -> Job:
    """Return a job with a root with the real path of its directory, so that a link that changes later does not matter."""
    check_root(job)
    if job.root is None or job.workdir is None:
        return job
    real = replace(job, workdir=os.path.realpath(job.workdir))
    check_root(real)
    return real


def is_inside(place: object, root: str | Path) -> bool:
    """Whether a value is a path below a root. Links are resolved."""
    try:
        return isinstance(place, (str, Path)) and Path(os.path.realpath(place)).is_relative_to(os.path.realpath(root))
    except (OSError, ValueError):
        return False


def _check(field: str, given: str, place: Path, root: Path) -> None:
    if not is_inside(place, root):
        raise JobError(f"{field}: {given} is outside the root, {root}. Jobs of this server stay inside it.")


def _path_of(repo: str) -> Path | None:
    """Return the path of a repository on the disk; None if it is on a network. Raises JobError if it may be something else."""
    if repo[:7].lower() == "file://":
        rest = unquote(repo[7:])
        return Path(rest if rest.startswith("/") else f"/{rest}")  # git takes the name of a host for a directory
    if is_path(repo):
        return Path(repo)
    if not _NETWORK.match(repo):
        raise JobError(
            f"repo: expected a path, or an address with http, https, ssh, git or file, got {without_credentials(repo)!r}."
        )
    return None


def _places(repo: Path) -> Iterator[Path]:
    """Yield the places that git reads for a repository, as far as they exist. Raises JobError if they are not clear."""
    left = [repo, repo / ".git", repo.with_name(f"{repo.name}.git"), repo.with_name(f"{repo.name}.git") / ".git"]
    seen: set[Path] = set()
    yield repo
    while left:
        name = left.pop()
        if name in seen or not os.path.lexists(name):
            continue
        if len(seen) >= _MOST_PLACES:
            raise JobError(f"repo: {repo} leads to more than {_MOST_PLACES} places.")
        seen.add(name)
        yield name
        yield from (name / part for part in _PARTS if os.path.lexists(name / part))
        for pointer in (name, *(name / each for each in _POINTERS)):
            for target in _targets(pointer):
                yield target
                left += (target, target / ".git")


def _targets(pointer: Path) -> Iterator[Path]:
    """Yield the paths in a file that leads git elsewhere."""
    if not pointer.is_file():
        return
    yield pointer
    is_list = pointer.name == "alternates"
    with pointer.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if not is_list and pointer.name != "commondir" and not data.startswith(b"gitdir:"):
        return  # such as a bundle
    lines = data.splitlines() if is_list else [data.removeprefix(b"gitdir:").strip()]
    if len(data) > _MOST_BYTES or any(line.startswith(b'"') or b"\n" in line for line in lines):
        raise JobError(f"repo: expected plain paths of at most {_MOST_BYTES} bytes in {pointer}.")
    base = pointer.parent.parent if is_list else pointer.parent
    for text in map(os.fsdecode, lines):
        if text and "\0" not in text:
            yield base / text
