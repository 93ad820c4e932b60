"""A private Postgres server for system tests, in a temporary directory of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest


class PostgresServer:
    """A running server. `url` names its database, to which everyone on this machine may connect."""

    def __init__(self) -> None:
        self._programs = _programs()
        self._folder = Path(tempfile.mkdtemp(prefix="fairlead-pg-", dir="/tmp"))
        self._port = _free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        self._prefix: list[str] = []
        self._options: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._leave_root()
        data = str(self._folder / "data")
        self._run("initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        settings = {
            "listen_addresses": "'127.0.0.1'",
            "port": str(self._port),
            "unix_socket_directories": f"'{self._folder}'",
            "fsync": "off",  # what is committed survives the server all the same, only not the machine
            "max_connections": "200",
            "shared_buffers": "32MB",
        }
        with (self._folder / "data" / "postgresql.conf").open("a") as file:
            file.write("".join(f"{name} = {value}\n" for name, value in settings.items()))
        self.start()

    def _leave_root(self) -> None:
        """Have the programs run as another user: the server refuses to run as root."""
        if Path("/dev/null").stat().st_mode & 0o006 != 0o006:
            # Other users cannot use it on this machine, and the programs need it. In a user namespace root is not called root.
            self._prefix = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
            return
        names = {account.pw_name for account in pwd.getpwall()}
        account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        os.chown(self._folder, account.pw_uid, account.pw_gid)
        self._options = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        log = self._folder / "log"
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-l", str(log), "-w", "-t", "60", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server. The mode `immediate` is a crash."""
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", mode, "-w", "-t", "60", "stop")

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def create_database(self, name: str) -> None:
        """Create another, empty database."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self._port), "-U", "postgres", name)

    def remove(self) -> None:
        """Stop the server if it runs, and delete everything."""
        try:
            if (self._folder / "data" / "postmaster.pid").exists():
                self.stop("immediate")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        # Not a pipe: the server inherits it, and reading would wait for the server to end.
        with tempfile.TemporaryFile() as output:
            command = [*self._prefix, str(self._programs / program), *arguments]
            environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
            code = subprocess.call(command, stdout=output, stderr=output, env=environment, cwd="/", timeout=120, **self._options)
            output.seek(0)
            assert code == 0, output.read().decode(errors="replace")


def _programs() -> Path:
    """The folder of the server's programs, which are installed if that is possible, and named if it is not."""
    found = _installed_programs()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "--no-install-recommends", "postgresql"]
        if subprocess.run(install, capture_output=True, check=False, timeout=300).returncode:  # its lists may be old, or missing
            subprocess.run(["apt-get", "update"], capture_output=True, check=False, timeout=300)
            subprocess.run(install, capture_output=True, check=False, timeout=300)
        found = _installed_programs()
    if found is None:
        pytest.fail("This test needs the Postgres server: install the package postgresql (apt install postgresql).")
    return found


def _installed_programs() -> Path | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if versions:
        return versions[-1].parent
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found and shutil.which("pg_ctl") else None


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]
