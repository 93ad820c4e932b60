"""Daemon threads for work that blocks, what the end of the process has to call, the guard of child processes, and memory.

The event loop's own pool (`asyncio.to_thread`) makes the process wait for its threads before it can exit. A daemon thread
does not, even while it blocks.

The guard ends child processes when this process is killed and cannot do it itself. It is a small shell that is told which
children run and holds the read end of a pipe. The kernel closes the write end when this process ends, however that happens. The
guard then ends the children that are left, with all processes of their groups. It is started with the first child. Children
that leave their group (`setsid`) escape.

The parts of a session refer to each other, so that only the garbage collector can free a closed session. In a process that has
become idle, it may not run for a long time. And what it frees stays in the C library's heap until that is trimmed.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import ctypes
import gc
import logging
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from subprocess import Popen


T = TypeVar("T")


def start_thread(work: Callable[[], object], name: str) -> None:
    """Run `work` in a daemon thread and do not wait for it.

    Args:
        work: the function to run. Its result is dropped; an exception ends its thread only.
        name: the thread's name, for debuggers.
    """
    threading.Thread(target=work, name=name, daemon=True).start()


async def run_in_thread(work: Callable[[], T], name: str = "fairlead-blocking") -> T:
    """Run `work` in a daemon thread and wait for its result.

    The thread sees the context variables of the caller. A caller that is cancelled stops waiting at once. The thread itself
    cannot be stopped; its result is then dropped.

    Args:
        work: the function to run.
        name: the thread's name, for debuggers.

    Returns:
        What `work` returns.

    Raises:
        BaseException: what `work` raises, except that a StopIteration arrives as a RuntimeError.
    """
    import asyncio  # noqa: PLC0415  not at the top: the command can do without it for --version and --help

    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # pyright: ignore[reportArgumentType]
        elif isinstance(error, StopIteration):  # which a future refuses to hold
            done.set_exception(RuntimeError("StopIteration was raised in a thread"))
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed, so no caller is waiting
            loop.call_soon_threadsafe(deliver, result, error)

    context = contextvars.copy_context()
    start_thread(lambda: context.run(run), name)
    return await done


_callbacks: list[Callable[[], None]] = []


def on_process_ending(callback: Callable[[], None]) -> None:
    """Call `callback`, on any thread, when the process is about to end. Registering twice is the same as once."""
    if callback not in _callbacks:
        _callbacks.append(callback)


def process_is_ending() -> None:
    """Call every registered callback: the process is about to end."""
    for callback in list(_callbacks):
        callback()


def runs_foreign_code() -> bool:
    """Return whether code that is not ours may have run in this process."""
    return bool(_callbacks)


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
                self._write_line(f"+ {target}\n")

    def remove(self, pid: int) -> None:
        """Forget a child that has ended. Call it before the number of the process can belong to another one, if possible."""
        with self._changing:
            for target in {f"-{pid}", f"{pid}"} & self._targets:
                self._targets.discard(target)
                if self._pipe >= 0:
                    self._write_line(f"- {target}\n")

    def close(self) -> None:
        """End the guard, and all children that are left."""
        with self._changing:
            pipe, shell, self._pipe, self._shell = self._pipe, self._shell, -1, None
        if pipe >= 0:
            os.close(pipe)
        if shell is not None:
            shell.wait()

    def _write_line(self, text: str) -> None:
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


#: The number of the option of glibc that limits the heaps: see `use_one_heap`.
_M_ARENA_MAX = -8
#: How many bytes closed sessions have used before they are given back.
ENOUGH = 50_000_000
#: How many bytes a session uses besides its entries, and how often it keeps these: as JSON, as objects, in requests.
OF_A_SESSION, COPIES = 250_000, 4
#: Seconds from there to the collection. By then, the program has usually dropped the agents that it closed.
PATIENCE = 1.0

_closed = 0
_timer: asyncio.TimerHandle | None = None


def session_closed(size: int) -> None:
    """Count a closed session, whose entries have `size` bytes as JSON. After large or many ones, memory is given back a moment
    later.

    The work is that of the full collection which as many new objects would cause anyway.
    """
    global _closed, _timer
    _closed += OF_A_SESSION + COPIES * size
    if _closed < ENOUGH:
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if _timer is not None:  # a timer of a loop that has ended would never fire
        _timer.cancel()
    _timer = loop.call_later(PATIENCE, _give_back)


def _give_back() -> None:
    global _closed, _timer
    _closed, _timer = 0, None
    gc.collect()
    trim_heap()


def trim_heap() -> None:
    """Return the free pages of the C library's heap to the system. Only glibc can do that; elsewhere this does nothing."""
    _call_c_library("malloc_trim", 0)


def use_one_heap() -> None:
    """Let all threads that start from now on allocate from the same heap. Without glibc, this does nothing.

    glibc gives each thread its own heap, so that threads need not wait for each other. Python's threads hardly ever work at the
    same time. But each heap grows to what the largest work of its thread needed, and other threads cannot use what is freed
    there. In a process that runs for long, most of the memory is then free and belongs to the wrong thread.
    """
    _call_c_library("mallopt", _M_ARENA_MAX, 1)


def _call_c_library(name: str, *arguments: int) -> None:
    """Call a function of the C library, if it has it."""
    try:
        getattr(ctypes.CDLL(None), name)(*arguments)
    except (AttributeError, OSError, TypeError):
        return
