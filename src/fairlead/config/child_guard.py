"""Ends child processes when this process is killed and cannot do it itself.

A small shell, the guard, is told which children run and holds the read end of a pipe. The kernel closes the write end when this
process ends, however that happens. The guard then ends the children that are left, with all processes of their groups. It is
started with the first child. Children that leave their group (`setsid`) escape.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

_log = logging.getLogger("fairlead.config")

#: `+ TARGET` and `- TARGET` add and remove what `kill` gets: a process, or a group with a minus sign. At the end of the input
#: everything that is left is asked to end, and killed a moment later.
_SCRIPT = """trap '' HUP INT TERM
while read -r change target; do
  case $change in
    +) set -- "$@" "$target" ;;
    -) left=; for each; do [ "$each" = "$target" ] || left="$left $each"; done; set -- $left ;;
  esac
done
[ $# = 0 ] && exit
for each; do kill -s TERM -- "$each"; done
sleep 0.2
for each; do kill -s KILL -- "$each"; done
"""


class ChildGuard:
    """The guard of this process."""

    def __init__(self) -> None:
        self._targets: set[str] = set()
        self._shell: Popen[bytes] | None = None
        self._pipe = -1
        #: Threads start children too.
        self._changing = threading.Lock()
        self._is_registered = False
        self._is_missing = False

    def prepare(self) -> None:
        """Start the guard, unless it runs. Call it before a child is started, so that `add` takes no time after that."""
        if self._pipe < 0 and os.name == "posix":
            with self._changing:
                if self._pipe < 0:
                    self._start()

    def add(self, pid: int, *, is_group: bool = True) -> None:
        """End a child when this process is killed. Call it as soon as the child runs: one that runs before that may escape.

        Args:
            pid: the process.
            is_group: whether it leads a process group, which ends with it.
        """
        if os.name != "posix":
            return
        target = f"-{pid}" if is_group else f"{pid}"
        with self._changing:
            self._targets.add(target)
            if self._pipe < 0:
                self._start()  # this tells it all targets
            else:
                self._tell(f"+ {target}\n")

    def remove(self, pid: int) -> None:
        """Forget a child that has ended. Call it before the number of the process can belong to another one, if possible."""
        with self._changing:
            for target in {f"-{pid}", f"{pid}"} & self._targets:
                self._targets.discard(target)
                if self._pipe >= 0:
                    self._tell(f"- {target}\n")

    def close(self) -> None:
        """End the guard, and all children that are left."""
        with self._changing:
            pipe, shell, self._pipe, self._shell = self._pipe, self._shell, -1, None
        if pipe >= 0:
            os.close(pipe)
        if shell is not None:
            shell.wait()

    def _tell(self, text: str) -> None:
        try:
            os.write(self._pipe, text.encode())
        except BlockingIOError:
            _log.warning("The process that guards children does not read; some may outlive this process if it is killed.")
        except OSError:  # it was killed: start another one
            os.close(self._pipe)
            self._pipe = -1
            if self._shell is not None:
                self._shell.wait()
            self._start()

    def _start(self) -> None:
        import subprocess

        if self._is_missing:
            return
        read_end, write_end = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        except OSError as error:
            _log.warning("Children may outlive this process if it is killed: /bin/sh could not be started: %s", error.strerror)
            self._is_missing = True
            os.close(write_end)
            return
        finally:
            os.close(read_end)
        os.set_blocking(write_end, False)
        self._pipe = write_end
        if not self._is_registered:
            self._is_registered = True
            atexit.register(self.close)
            os.register_at_fork(after_in_child=self._forget)
        with suppress(OSError):
            os.write(write_end, "".join(f"+ {target}\n" for target in self._targets).encode())

    def _forget(self) -> None:
        """In a fork: the guard and the children are those of the other process."""
        self._changing = threading.Lock()
        self._targets = set()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._shell is not None:
            self._shell.returncode = 0  # only the other process can wait for it
            self._shell = None


child_guard = ChildGuard()
