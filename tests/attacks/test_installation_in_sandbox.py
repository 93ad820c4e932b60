"""Commands in the sandbox that rewrite fairlead itself, which is installed, or runs from, below the working directory.

Each place is tried with the real program: what is planted there would run outside, with all keys, at the latest when it starts
again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.host import Host
from tests.support.stage import Stage, calls, says, stage
from tests.support.surroundings import rpc, surroundings
from tests.system.test_sandbox_escapes import bubblewrap, ends, folder

from fairlead import Agent
from fairlead.errors import ConfigError
from fairlead.testing import SCRIPTED_MODEL, ProviderServer, Scripted, Turn

__all__ = ["bubblewrap"]
pytestmark = pytest.mark.system

CHECKOUT = Path(__file__).resolve().parents[2]
#: Where the modules are that the tests import.
PACKAGES = [path for path in sys.path if path.endswith(("site-packages", "/src"))]


@pytest.fixture
def root() -> Iterator[Path]:
    with folder() as made:
        yield made


def install(place: Path) -> Path:
    """Make a virtual environment in which fairlead is installed. Returns its Python."""
    venv.create(place, with_pip=False, symlinks=True)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "fairlead-test.pth").write_text("\n".join(PACKAGES))
    return place / "bin" / "python"


def environment(root: Path, **more: str) -> dict[str, str]:
    around = {"HOME": str(root / "user"), "FAIRLEAD_HOME": str(root / "home"), "PATH": os.environ["PATH"]}
    (root / "work").mkdir(exist_ok=True)
    return {**around, "LANG": "C.UTF-8", **more}


@contextmanager
def running(root: Path, *python: str, **more: str) -> Generator[Host]:
    """An agent in a sandbox that the given Python runs, in `root/work`."""
    env = environment(root, **more)
    argv = [*python, *rpc("pi", "--sandbox", "workspace", model=None)[1:]]
    with Host(argv, root / "work", env) as host:
        yield host
        assert host.leave() == 0


def run(host: Host, command: str) -> tuple[int, str]:
    done = host.request("bash", command=command)["data"]
    return done["exitCode"], done["output"]


def start(root: Path, *python: str, cwd: Path | None = None, flags: Sequence[str] = (), **more: str) -> str:
    """Start an agent that must refuse to run in a sandbox, and return what it says."""
    env = environment(root, **more)
    argv = [*python, *rpc("pi", "--sandbox", "workspace", *flags, model=None)[1:]]
    where = cwd or root / "work"
    done = subprocess.run(argv, cwd=where, env=env, input="", capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, ""), done
    return done.stderr


def listing(place: Path) -> Mapping[str, object]:
    """What is below a folder: the content of each file, and the target of each link."""
    found: dict[str, object] = {}
    for path in place.rglob("*"):
        if "__pycache__" not in path.parts:
            found[str(path)] = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


TRICKS = {
    "pth": "echo 'import os' > .venv/lib/python*/site-packages/evil.pth; echo x > $(echo .venv/lib/python*)/site-packages/e.pth",
    "sitecustomize": "echo 'import os' > $(echo .venv/lib/python*/site-packages)/sitecustomize.py",
    "module": "echo x >> $(echo .venv/lib/python*/site-packages)/later.py",
    "library": "cp /bin/sh $(echo .venv/lib/python*/site-packages)/later.so",
    "bytecode": "cd .venv/lib/python*/site-packages && mkdir -p __pycache__ && echo x > __pycache__/later.cpython-311.pyc",
    "interpreter": "rm -f .venv/bin/python; cp /bin/true .venv/bin/python",
    "interpreter-by-rename": "cp /bin/true t && mv -f t .venv/bin/python",
    "launcher": "echo '#!/bin/sh' > .venv/bin/fairlead",
    "config": "echo 'home = /tmp' > .venv/pyvenv.cfg",
    "rename": "mv .venv gone && cp -r gone .venv",
    "rename-inside": "mv .venv/lib .venv/lib2",
    "exchange": "mkdir other && mv -T --exchange other .venv || mv -T other .venv",
    "delete": "rm -rf .venv",
    "mode": "chmod -R u+w .venv && echo x > .venv/pyvenv.cfg",
    "link": "ln .venv/pyvenv.cfg hard && echo x > hard",
    "through-proc": "echo x > /proc/self/cwd/.venv/pyvenv.cfg; echo x > /proc/self/root$PWD/.venv/pyvenv.cfg",
}


@pytest.fixture(scope="module")
def installed() -> Iterator[tuple[Path, Host]]:
    with folder() as root:
        python = install(root / "work" / ".venv")
        with running(root, str(python), "-m", "fairlead") as host:
            yield root, host


@pytest.mark.parametrize("name", TRICKS)
def test_an_environment_in_the_working_directory_is_not_changed(installed: tuple[Path, Host], name: str) -> None:
    root, host = installed
    before = listing(root / "work" / ".venv")
    code, said = run(host, TRICKS[name])
    assert listing(root / "work" / ".venv") == before, said
    assert code != 0
    assert run(host, "echo made > other.py; cat other.py") == (0, "made\n")


def test_the_result_says_why_it_is_read_only(installed: tuple[Path, Host]) -> None:
    _, host = installed
    assert run(host, "touch .venv/x")[1].endswith("[Sandbox: .venv is read-only here, because fairlead itself runs from there.]")
    assert "read-only here" not in run(host, "touch /etc/x")[1]


def test_the_folder_above_an_environment_is_not_renamed(root: Path) -> None:
    python = install(root / "work" / "tools" / "env")
    with running(root, str(python), "-m", "fairlead") as host:
        assert run(host, "mv tools gone")[0] != 0
        assert run(host, "echo x > tools/new && echo x > tools/env/pyvenv.cfg")[0] != 0
        assert (root / "work" / "tools" / "new").exists() and "home" in (root / "work/tools/env/pyvenv.cfg").read_text()


def test_file_tools_do_not_change_it_either(root: Path) -> None:
    environment(root)
    paths = [".venv/pyvenv.cfg", "alias/pyvenv.cfg", "x/../.venv/pyvenv.cfg", ".venv/new.pth", "hard"]
    turn = calls(
        *[("write", {"path": path, "content": "x"}) for path in paths],
        *[("edit", {"path": path, "edits": [{"oldText": "home", "newText": "h"}]}) for path in (*paths[:3], "hard")],
        ("write", {"path": "free", "content": "x"}),
    )
    with ProviderServer([turn, says("ok")]) as provider:
        (root / "work").rmdir()
        around = surroundings(root, provider.url)
        python = install(around.cwd / ".venv")
        (around.cwd / "alias").symlink_to(".venv")
        (around.cwd / "x").mkdir()
        (around.cwd / "hard").hardlink_to(around.cwd / ".venv" / "pyvenv.cfg")
        before = listing(around.cwd / ".venv")
        argv = [str(python), "-m", "fairlead", *rpc("pi", "--sandbox", "workspace", "--tools", "write,edit")[1:]]
        with Stage(argv, around.cwd, {**around.env, "HOME": str(root / "user")}) as host:
            host.prompt("go")
            assert sorted(is_error for _, is_error in ends(host)) == [False] + [True] * 9
            assert (around.cwd / "free").exists()
            assert all("fairlead itself runs from" in text for text, is_error in ends(host) if is_error)
        assert listing(around.cwd / ".venv") == before


def test_a_folder_of_modules_that_does_not_exist_yet_is_not_made(root: Path) -> None:
    python = install(root / "env")
    path = f"{root}/work/later:{root}/work/a/b/c:{root}/work/archive.zip"
    with running(root, str(python), "-P", "-m", "fairlead", PYTHONPATH=path) as host:
        for made in ("later", "a/b/c", "archive.zip"):
            assert run(host, f"mkdir -p {made}; echo 'import os' > {made}/sitecustomize.py")[0] != 0
            assert run(host, f"rm -rf {made.split('/')[0]}; mv {made.split('/')[0]} gone")[0] != 0
        assert run(host, "echo x > a.txt; cat a.txt") == (0, "x\n")
    assert sorted(path.name for path in (root / "work").iterdir()) == ["a.txt"]


def test_a_folder_of_modules_is_read_only(root: Path) -> None:
    python = install(root / "env")
    (root / "work" / "lib" / "deep").mkdir(parents=True)
    with running(root, str(python), "-P", "-m", "fairlead", PYTHONPATH=f"{root}/work/lib") as host:
        assert run(host, "echo x > lib/sitecustomize.py")[0] != 0
        assert run(host, "echo x > lib/deep/x")[0] != 0
        assert run(host, "mv lib gone")[0] != 0


@pytest.mark.parametrize("entry", ["{work}", "{work}/", "{work}/../work", "{root}/link", ".", "{root}"])
def test_sandbox_refuses_a_working_directory_on_the_import_path(root: Path, entry: str) -> None:
    python = install(root / "env")
    (root / "link").symlink_to("work")
    path = entry.format(work=root / "work", root=root)
    said = start(root, str(python), "-m", "fairlead", PYTHONPATH=path)
    assert f"The working directory {root / 'work'} cannot be a sandbox" in said and "imports modules from" in said


def test_sandbox_refuses_a_checkout_that_modules_are_imported_from(root: Path) -> None:
    python = install(root / "env")
    shutil.copytree(CHECKOUT / "src" / "fairlead", root / "work" / "fairlead")
    said = start(root, str(python), "-c", "from fairlead.cli.start import main; raise SystemExit(main())")
    assert "cannot be a sandbox: commands could change what fairlead runs" in said


def test_the_source_of_an_editable_install_is_read_only(root: Path) -> None:
    environment(root)
    shutil.copytree(CHECKOUT / "src" / "fairlead", root / "work" / "src" / "fairlead")
    python = install(root / "work" / ".venv")
    (site,) = (root / "work" / ".venv").glob("lib/python*/site-packages")
    (site / "fairlead-test.pth").write_text("\n".join([f"{root}/work/src", *PACKAGES]))
    with running(root, str(python), "-m", "fairlead") as host:
        assert run(host, "echo x > src/fairlead/later.py")[0] != 0
        code, said = run(host, "mkdir src/other")
        assert code != 0 and "src is read-only here" in said
        assert run(host, "mv src gone")[0] != 0
        assert run(host, "mkdir tests && echo x > tests/x")[0] == 0


def test_packages_that_a_finder_maps_are_read_only(root: Path) -> None:
    python = install(root / "env")
    (site,) = (root / "env").glob("lib/python*/site-packages")
    package = root / "work" / "mapped"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    finder = (
        f"MAPPING = {{'mapped': {str(package)!r}}}\nclass Finder:\n    def find_spec(name, path=None, target=None): return None\n"
    )
    (site / "editable_finder.py").write_text(f"{finder}def install():\n    import sys; sys.meta_path.append(Finder)\n")
    (site / "editable.pth").write_text("import editable_finder; editable_finder.install()")
    with running(root, str(python), "-m", "fairlead") as host:
        assert run(host, "echo x > mapped/__init__.py")[0] != 0


def test_the_users_own_packages_are_read_only_even_if_there_are_none_yet(root: Path) -> None:
    base = os.path.realpath(sys.executable)
    env = {"PYTHONUSERBASE": str(root / "work" / "base"), "PYTHONPATH": os.pathsep.join(PACKAGES)}
    plant = (
        'site=$(python3 -c "import site; print(site.getusersitepackages())" || echo $PYTHONUSERBASE/lib);'
        ' mkdir -p "$PYTHONUSERBASE/lib"; mkdir -p "$site" && echo "import os" > "$site/usercustomize.py"'
    )
    with running(root, base, "-P", "-m", "fairlead", **env) as host:
        assert run(host, plant)[0] != 0
        assert not list((root / "work").rglob("*.py"))


def test_hard_links_to_the_installation_are_read_only(root: Path) -> None:
    environment(root)
    python = install(root / "env")
    (site,) = (root / "env").glob("lib/python*/site-packages")
    cache = root / "work" / "cache"
    (cache / "many").mkdir(parents=True)
    for number in range(20):
        (site / f"later{number}.py").write_text("kept = True\n")
        (cache / "many" / f"l{number}").hardlink_to(site / f"later{number}.py")
    (site / "single.py").write_text("kept = True\n")
    (cache / "single").hardlink_to(site / "single.py")
    (cache / "own").write_text("mine\n")
    (cache / "own2").hardlink_to(cache / "own")
    with running(root, str(python), "-m", "fairlead") as host:
        assert run(host, "echo x > cache/single")[0] != 0
        assert run(host, "mv cache/single moved; mv cache gone; rm cache/many/l3; echo x > moved; echo x > gone/single")[0] != 0
        assert run(host, "echo x > cache/many/l7")[0] != 0
        assert run(host, "echo x > cache/own; cat cache/own2") == (0, "x\n")
        (site / "late.py").write_text("kept = True\n")
        (cache / "late").hardlink_to(site / "late.py")
        assert run(host, "echo x > cache/late")[0] != 0
    for path in site.glob("*.py"):
        assert path.read_text() == "kept = True\n"


def test_hard_links_from_an_environment_in_the_working_directory_are_read_only(root: Path) -> None:
    python = install(root / "work" / ".venv")
    (root / "work" / "config").hardlink_to(root / "work" / ".venv" / "pyvenv.cfg")
    with running(root, str(python), "-m", "fairlead") as host:
        assert run(host, "echo x > config")[0] != 0


@pytest.mark.parametrize("link", [".venv", "up/env"])
def test_a_link_that_leads_to_the_installation_is_refused(root: Path, link: str) -> None:
    environment(root)
    install(root / "env")
    path = root / "work" / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(root / "env")
    said = start(root, str(path / "bin" / "python"), "-m", "fairlead")
    assert f"commands could change {path}" in said and "It is a link" in said


def test_sandbox_refuses_a_working_directory_that_is_the_environment(root: Path) -> None:
    python = install(root / "work")
    assert "Python is installed there" in start(root, str(python), "-m", "fairlead")


def test_sandbox_refuses_a_copied_interpreter_in_the_working_directory(root: Path) -> None:
    environment(root)
    python = root / "work" / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(install(root / "env"))
    # Python looks for its configuration beside itself, and above.
    (root / "work" / "pyvenv.cfg").write_text((root / "env" / "pyvenv.cfg").read_text())
    path = os.pathsep.join(PACKAGES)
    assert "cannot be a sandbox" in start(root, str(python), "-P", "-m", "fairlead", PYTHONPATH=path)


def test_libraries_that_a_variable_names_are_read_only(root: Path) -> None:
    python = install(root / "env")
    (root / "work" / "lib").mkdir(parents=True)
    with running(root, str(python), "-m", "fairlead", LD_LIBRARY_PATH=f"{root}/work/lib") as host:
        assert run(host, "echo x > lib/libssl.so.3")[0] != 0
    for here in (f"{root}/work", "/opt/lib:", ":", "/opt/lib;.", "/opt/lib::/usr/lib"):
        said = start(root, str(python), "-m", "fairlead", LD_LIBRARY_PATH=here)
        assert "cannot be a sandbox" in said and "libraries are loaded from" in said, here
    with running(root, str(python), "-m", "fairlead", LD_LIBRARY_PATH="/opt/lib;./lib") as host:
        assert run(host, "echo x > lib/libssl.so.3")[0] != 0


@pytest.mark.parametrize("path", ["{work}", "", "."])
def test_libraries_that_the_environment_of_an_agent_names_are_not_planted(root: Path, path: str) -> None:
    (root / "work").mkdir()
    env = {
        "FAIRLEAD_HOME": str(root / "home"),
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": f"/opt:{path.format(work=root / 'work')}",
    }
    with pytest.raises(ConfigError, match="libraries are loaded from"):
        Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn()]), cwd=root / "work", env=env, sandbox="workspace")


# Extensions that the user names


EXTENSION = """
import sys
from pathlib import Path
sys.path.append(str(Path(__file__).parent / "helpers"))
import helper
def setup(fl):
    pass
"""


def test_an_extension_that_was_named_and_what_it_imports_are_read_only(root: Path) -> None:
    flags = ["--sandbox", "workspace", "-e", "own.py"]
    env = {"HOME": str(root / "user")}
    files = {"own.py": EXTENSION, "helpers/helper.py": ""}
    with stage(root, "pi", flags=flags, files=files, env=env) as host:
        # The first command may come before the extension was loaded.
        assert host.request("bash", command="echo x >> own.py")["data"]["exitCode"] != 0
        bytecode = f"mkdir -p __pycache__; echo x > __pycache__/own.{sys.implementation.cache_tag}.pyc"
        assert host.request("bash", command=bytecode)["data"]["exitCode"] != 0
        host.prompt("go")
        for command in ("echo x > helpers/helper.py", "echo x > helpers/another.py", "mv helpers gone", "mv own.py gone"):
            assert host.request("bash", command=command)["data"]["exitCode"] != 0, command


def test_the_folder_of_a_script_extension_is_read_only(root: Path) -> None:
    files = {"ext/main.ts": "export default function () {}\n", "ext/helper.ts": "", "node_modules/x/index.js": ""}
    flags = ["--sandbox", "workspace", "-e", "ext/main.ts"]
    with stage(root, "pi", flags=flags, files=files, env={"HOME": str(root / "user")}) as host:
        for command in ("echo x > ext/main.ts", "echo x > ext/helper.ts", "echo x > node_modules/x/index.js", "mv ext gone"):
            assert host.request("bash", command=command)["data"]["exitCode"] != 0, command


def test_no_package_comes_before_those_that_a_script_extension_imports(root: Path) -> None:
    witness = root / "witness"
    files = {
        "a/ext/main.ts": 'import { name } from "helper";\nexport default (pi) => pi.registerCommand(name, { handler() {} });\n',
        "node_modules/helper/index.mjs": 'export const name = "original";\n',
        "node_modules/helper/package.json": '{"main": "index.mjs", "type": "module"}',
    }
    plant = f"import fs from 'node:fs'; fs.writeFileSync('{witness}', ''); export const name = 'planted';"
    flags = ["--sandbox", "workspace", "-e", "a/ext/main.ts"]
    with stage(root, "pi", flags=flags, files=files, env={"HOME": str(root / "user")}) as host:
        new = "a/node_modules/helper"
        command = f'mkdir -p a/node_modules && cp -r node_modules/helper {new} && echo "{plant}" > {new}/index.mjs'
        assert host.request("bash", command=command)["data"]["exitCode"] != 0
        assert host.request("bash", command="mkdir -p other/node_modules && touch other/node_modules/x")["data"]["exitCode"] == 0
        host.request("reload")
        assert "original" in str(host.request("get_commands")) and not witness.exists()


def test_a_script_extension_in_the_working_directory_itself_is_refused(root: Path) -> None:
    python = install(root / "env")
    environment(root)
    (root / "work" / "main.ts").write_text("export default function () {}\n")
    said = start(root, str(python), "-m", "fairlead", flags=["-e", "main.ts"])
    assert "Move it into its own folder" in said
