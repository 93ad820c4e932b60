"""The file that holds the compiled modules of a start."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.cli.command import PATIENCE

#: Imports a module of a package through a cache of its own, and saves the cache at the end, as the command does.
IMPORTING = """
import os, sys
from fairlead.cli import code_cache
code_cache.PACKAGES = ("toy",)
cache = code_cache.CodeCache("toy.modules")
sys.meta_path.insert(0, cache)
read, found = cache.code, []
cache.code = lambda entry: found.append(read(entry)) or found[-1]
{before}
import toy.part
is_cached = any(code is not None and code.co_filename == toy.part.__file__ for code in found)
print(toy.part.VALUE, "cached" if is_cached else "usual")
{after}
cache.save()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with a package that has one module."""
    package = tmp_path / "modules" / "toy"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "part.py").write_text("VALUE = 1\ndef fail(): raise ValueError\n")
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**env, "PYTHONPATH": str(folder / "modules"), **more}


def run(folder: Path, before: str = "", after: str = "", flags: Sequence[str] = (), env: Mapping[str, str] | None = None) -> str:
    program = IMPORTING.format(before=before, after=after)
    return python(folder, [*flags, "-c", program], env or environment(folder))


def python(folder: Path, arguments: Sequence[str], env: Mapping[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=folder, env=env
    )
    assert not done.returncode and not done.stderr, done.stderr
    return done.stdout.strip()


def test_a_second_process_loads_modules_from_the_cache(folder: Path) -> None:
    assert run(folder) == "1 usual"
    assert run(folder) == "1 cached"


def test_a_process_that_loaded_everything_from_the_cache_does_not_write_it(folder: Path) -> None:
    run(folder)
    written = (folder / "toy.modules").stat()
    run(folder)
    assert (folder / "toy.modules").stat().st_ino == written.st_ino


@pytest.mark.parametrize("source", ["VALUE = 22\n", "VALUE = 2\ndef fail(): raise ValueError\n"], ids=["size", "time"])
def test_a_module_whose_source_has_another_size_or_time_is_loaded_from_its_source(folder: Path, source: str) -> None:
    run(folder)
    part = folder / "modules" / "toy" / "part.py"
    before = part.stat()
    part.write_text(source)
    os.utime(part, ns=(before.st_mtime_ns, before.st_mtime_ns + (len(source) == before.st_size) * 2_000_000_000))
    value = source.split()[2]
    assert run(folder) == f"{value} usual"
    assert run(folder) == f"{value} cached"


def test_a_module_that_became_a_package_or_was_removed_is_not_loaded_from_the_cache(folder: Path) -> None:
    run(folder)
    part = folder / "modules" / "toy" / "part.py"
    part.unlink()
    (part.with_suffix("")).mkdir()
    (part.with_suffix("") / "__init__.py").write_text("VALUE = 3\n")
    assert run(folder) == "3 usual"
    assert run(folder) == "3 cached"
    (part.with_suffix("") / "__init__.py").unlink()
    with pytest.raises(AssertionError, match="has no attribute 'VALUE'"):  # the folder is a namespace
        run(folder)


#: What happens to the file, whose last bytes are the code of the module.
DAMAGE: dict[str, Callable[[bytes, int], bytes]] = {
    "empty": lambda data, code: b"",
    "torn": lambda data, code: data[:-1],
    "torn in the index": lambda data, code: data[:200],
    "longer": lambda data, code: data + b"x",
    "of another Python": lambda data, code: data.replace(sys.version.encode(), sys.version.encode()[::-1]),
    "zeros": lambda data, code: data[:-code] + bytes(code),
    "other values": lambda data, code: data[:-code] + (b"i\1\0\0\0" * code)[:code],
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_ignored_and_written_again(folder: Path, damage: str) -> None:
    # Only the module, not what else this process loads, so that its code is at the end of the file.
    only = "code_cache._may_be_kept = lambda name: name == 'toy.part'"
    run(folder, only)
    (compiled,) = (folder / "modules" / "toy" / "__pycache__").glob("part.*")
    path = folder / "toy.modules"
    path.write_bytes(DAMAGE[damage](path.read_bytes(), compiled.stat().st_size - 16))
    assert run(folder, only) == "1 usual"
    run(folder, only)
    assert run(folder, only) == "1 cached"


def test_nothing_is_written_where_nothing_can_be_written(folder: Path) -> None:
    assert run(folder, "cache._path = 'missing/toy.modules'") == "1 usual"
    assert run(folder, flags=["-B"]) == "1 usual"
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))"
    ignored = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    run(folder, after=f"{ignored}; {full}")
    assert [path.name for path in folder.iterdir()] == ["modules"]


def test_a_module_from_the_cache_looks_like_any_other(folder: Path) -> None:
    looks = """
import inspect, traceback, importlib.resources, toy
spec = toy.part.__spec__
print(toy.part.__file__, toy.part.__cached__, toy.part.__package__, spec.origin, spec.cached, spec.has_location, spec.parent)
print(toy.__path__, toy.__spec__.submodule_search_locations, list(importlib.resources.files(toy).iterdir()))
print(inspect.getsource(toy.part.fail), toy.part.__loader__.get_source("toy.part"), toy.part.__loader__.get_code("toy.part"))
try:
    toy.part.fail()
except ValueError:
    traceback.print_exc(file=sys.stdout)
print(importlib.reload(toy.part).VALUE)
"""
    usual, cached = (run(folder, after=looks).partition("\n") for _ in range(2))
    assert (usual[0], cached[0]) == ("1 usual", "1 cached")
    assert without_addresses(usual[2]) == without_addresses(cached[2])
    assert "def fail" in usual[2]


def without_addresses(text: str) -> str:
    return " ".join(word for word in text.split() if not word.startswith("0x"))


def test_code_that_was_compiled_elsewhere_names_its_source(folder: Path) -> None:
    part = folder / "modules" / "toy" / "part.py"
    py_compile.compile(str(part), dfile="/elsewhere/part.py", doraise=True)
    names = "print(toy.part.fail.__code__.co_filename)"
    assert run(folder, after=names).splitlines() == ["1 usual", str(part)]
    assert run(folder, after=names).splitlines() == ["1 cached", str(part)]


def test_a_module_whose_code_belongs_to_a_hash_of_its_source_is_not_kept(folder: Path) -> None:
    part = folder / "modules" / "toy" / "part.py"
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    py_compile.compile(str(part), doraise=True, invalidation_mode=mode)
    assert [run(folder), run(folder)] == ["1 usual"] * 2


def test_a_folder_before_the_library_hides_its_modules(folder: Path) -> None:
    after = "sys.path.remove(os.environ['PYTHONPATH']); import colorsys; print(colorsys.__file__)"
    for _ in range(2):
        shown = run(folder, after=after).splitlines()[1]
        assert shown == str(Path(os.__file__).with_name("colorsys.py"))
    other = folder / "modules" / "colorsys.py"
    other.write_text("")
    after = "import colorsys; print(colorsys.__file__)"
    assert run(folder, after=after).splitlines()[1] == str(other)


def test_processes_that_end_together_leave_a_whole_file(folder: Path) -> None:
    command = [sys.executable, "-c", IMPORTING.format(before="", after="")]
    running = [subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=subprocess.DEVNULL) for _ in range(6)]
    assert [process.wait(PATIENCE) for process in running] == [0] * 6
    assert run(folder) == "1 cached"
    assert sorted(path.name for path in folder.iterdir()) == ["modules", "toy.modules"]


def test_the_numbers_of_closed_standard_streams_stay_free(folder: Path) -> None:
    run(folder)
    program = IMPORTING.format(before="sys.stderr.write(str(cache._file > 2 and os.dup(cache._file) == 0))", after="")
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&-', sys.executable, program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        cwd=folder,
        env=environment(folder),
    )
    assert done.stderr == "True"


def test_a_file_that_other_code_closed_is_not_read(folder: Path) -> None:
    run(folder)
    assert run(folder, "os.close(cache._file)") == "1 usual"
    replaced = "os.dup2(os.open(os.devnull, os.O_RDONLY), cache._file)"
    assert run(folder, replaced) == "1 usual"
    assert run(folder) == "1 cached"


def test_the_command_keeps_its_modules_in_a_file_beside_its_bytecode(folder: Path) -> None:
    env = environment(folder, PYTHONPYCACHEPREFIX=str(folder / "bytecode"), FAIRLEAD_HOME=str(folder / "home"))
    command = ["-m", "fairlead", "--mode", "rpc", "--dialect", "pi"]
    show = "print(code_cache._in_use._index.keys() >= {'fairlead.wire.pi.pi_server', 'asyncio.events', 'msgspec.json'})"
    program = f"from fairlead.cli import code_cache; code_cache.use(); {show}"
    assert python(folder, ["-c", program], env) == "False"
    assert not python(folder, command, env)
    assert python(folder, ["-c", program], env) == "True"
    (kept,) = (folder / "bytecode").rglob("*.modules")
    written = kept.stat().st_ino
    assert not python(folder, command, env)
    assert kept.stat().st_ino == written
