"""The attacks, tried once more as another kind of user: root becomes an ordinary user, and an ordinary user becomes root.

Root may read every file and has capabilities, an ordinary user has neither. A protection that relies on one of them must not go
unnoticed because the tests always run as the same user.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from shlex import quote

import pytest
from tests.support.debian import need
from tests.system.test_sandbox_escapes import folder

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
ATTACKS = "tests/attacks"
#: These take long, and what they attack does not ask who runs it: parsers, limits, and the arguments of jobs.
_SAME_FOR_ALL = ("endless_output", "endless_streams", "jobs_database", "jobs_database_on_postgres", "page_markdown")
#: The user `nobody` of every Linux system.
_ORDINARY_USER = 65534


@pytest.mark.timeout(1200)
def test_attacks_fail_for_the_other_kind_of_user_too() -> None:
    need("bwrap", "bubblewrap")
    # The sandbox has /tmp to itself, so that its tests need a home elsewhere.
    with tempfile.TemporaryDirectory() as made, folder() as home:
        tools, files = Path(made), Path(made, "files")
        files.mkdir()
        for path in (tools, home):
            path.chmod(0o755)
        for path in (files, home):
            os.chown(path, _ORDINARY_USER if os.geteuid() == 0 else -1, -1)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "-m", "system or not system"]
        command += [f"--ignore={ATTACKS}/test_{name}.py" for name in _SAME_FOR_ALL]
        done = subprocess.run(
            [*_become_the_other_user(tools), *command, f"--basetemp={files}/tests", ATTACKS],
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "SHELL": "/bin/sh",  # that of `nobody` refuses to run anything
                "TMPDIR": str(files),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) > 1000, done.stdout


def _become_the_other_user(tools: Path) -> list[str]:
    if os.geteuid() != 0:
        return ["unshare", "--user", "--map-root-user"]
    show = ["unshare", "--mount", "sh", "-c", _opening(tools), "sh"]
    return [*show, "setpriv", f"--reuid={_ORDINARY_USER}", f"--regid={_ORDINARY_USER}", "--clear-groups", "--inh-caps=-all"]


def _opening(tools: Path) -> str:
    """Return a script that runs its arguments where every user can reach the checkout and its Python.

    Each directory on the way that others may not pass is covered by an open one, in a mount namespace of its own.
    """
    needed = [Path(path) for path in dict.fromkeys((str(ROOT), sys.prefix, sys.base_prefix))]
    closed = {path: folder for path in needed if (folder := _closed_folder(path)) is not None}
    lines = ["set -e", "mount --make-rprivate /"]
    for number, path in enumerate(closed):
        lines += [f"mkdir {tools}/{number}", f"mount --bind {quote(str(path))} {tools}/{number}"]
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {quote(str(folder))}" for folder in dict.fromkeys(closed.values())]
    for number, path in enumerate(closed):
        lines += [f"mkdir -p {quote(str(path))}", f"mount --bind {tools}/{number} {quote(str(path))}"]
    return "\n".join([*lines, f"cd {quote(str(ROOT))}", 'exec "$@"'])


def _closed_folder(path: Path) -> Path | None:
    """Return the outermost directory on the way to `path` that other users may not pass."""
    return next((each for each in reversed(path.parents) if not each.stat().st_mode & 1), None)
