"""The root of a job: the directory that holds everything on a worker's disk that the job names.

A server with `--root` gives one to each job. It checks the job before it queues it, and the worker checks it again before it runs
it: links may have changed, and the worker may be another machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from msgspec.structs import replace

from fairlead.core.secrets import without_credentials
from fairlead.errors import JobError
from fairlead.jobs.task import Job
from fairlead.platform.git import is_path

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
