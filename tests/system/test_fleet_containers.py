"""Jobs whose commands run in real containers, of an image that is made here from busybox."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Generator
from io import BytesIO
from pathlib import Path

import pytest
from tests.support.debian import need
from tests.support.fleet import Fleet, fleet_in, lines_of, make_repository, wait_until

from fairlead.jobs import JobResult, Jobs

pytestmark = pytest.mark.system

IMAGE = "localhost/fairlead-test-busybox:1"
#: Flags before and after `run` with which containers start on machines that restrict them; the first that work are used.
FLAGS = (("", ""), ("", "--ulimit host"), ("--runtime runc", "--ulimit host"))
#: Without limits that such a machine does not let podman set.
SETTINGS = '[containers]\ndefault_ulimits = []\n[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A directory with a `podman` that starts containers on this machine."""
    real = need("podman", "podman")
    need("busybox", "busybox-static")
    subprocess.run([real, "import", "-", IMAGE], input=root_directory(), capture_output=True, check=True, timeout=120)
    folder = tmp_path_factory.mktemp("podman")
    (folder / "containers.conf").write_text(SETTINGS)
    problem = ""
    for before, after in FLAGS:
        if "runc" in before:
            need("runc", "runc")
        (folder / "podman").write_text(
            f"#!/bin/sh\nexport CONTAINERS_CONF={folder}/containers.conf\n"
            f'if [ "$1" = run ]; then shift; set -- run --network none {after} "$@"; fi\nexec {real} {before} "$@"\n'
        )
        (folder / "podman").chmod(0o755)
        done = subprocess.run([folder / "podman", "run", "--rm", IMAGE, "true"], capture_output=True, text=True, check=False)
        problem = done.stderr
        if done.returncode == 0:
            break
    else:
        pytest.fail(f"podman cannot start a container here: {problem}")
    yield folder
    subprocess.run([real, "rmi", "--force", IMAGE], capture_output=True, check=False, timeout=120)


def root_directory() -> bytes:
    """The files of the image: busybox under the names of its programs."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    output = BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        archive.add(busybox, "bin/busybox")
        for library in libraries(busybox):
            archive.add(os.path.realpath(library), library)
        for name in ("sh", "sleep", "echo", "ls", "pwd", "true", "touch", "cat"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        marker = tarfile.TarInfo("in-container")
        archive.addfile(marker)
    return output.getvalue()


def libraries(program: str) -> list[str]:
    """The libraries that a program loads, and what loads them; none if it is static, as that of busybox-static is."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False, timeout=30).stdout
    return [word for word in listed.split() if word.startswith("/")]


@pytest.fixture
def fleet(podman: Path, tmp_path: Path) -> Generator[Fleet]:
    with fleet_in(tmp_path) as fleet:
        fleet.extra_env["PATH"] = f"{podman}:{os.environ['PATH']}"
        yield fleet


def containers(podman: Path) -> str:
    command = [podman / "podman", "ps", "--all", "--format", "{{.Names}}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


async def ended(jobs: Jobs, *ids: str) -> dict[str, JobResult]:
    return {result.id: result async for result in jobs.results(ids, timeout=90)}


async def test_commands_run_in_a_container_with_the_files_of_the_job(fleet: Fleet, podman: Path) -> None:
    commit = make_repository(fleet.root / "repo")
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(
            fleet.job("here", "ls /in-container > where; pwd >> where", container=IMAGE),
            fleet.job("repo", "cat readme.txt > copy", repo=str(fleet.root / "repo"), commit=commit, container=IMAGE),
        )
        results = await ended(jobs, "here", "repo")
        assert {result.status for result in results.values()} == {"done"}, results
        assert "b/copy" in (await jobs.patch("repo") or "")
    assert lines_of(fleet.workdir / "where") == ["/in-container", str(fleet.workdir)]
    wait_until(lambda: "-here" not in containers(podman) and "-repo" not in containers(podman))


async def test_cancelling_a_job_ends_its_container(fleet: Fleet, podman: Path) -> None:
    fleet.start_worker()
    async with Jobs(fleet.url) as jobs:
        await jobs.submit(fleet.job("held", "touch begun; sleep 600", container=IMAGE))
        wait_until(lambda: (fleet.workdir / "begun").exists())
        await jobs.cancel("held")
        wait_until(lambda: "-held" not in containers(podman), 20)
