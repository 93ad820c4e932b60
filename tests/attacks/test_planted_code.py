"""What a command in the sandbox plants for the next start, or for a reload. All of it runs for real, in bubblewrap."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.stage import Stage
from tests.system.test_sandbox_escapes import bubblewrap, folder, sandboxed

from fairlead import Agent
from fairlead.config.home import Home
from fairlead.config.trust import save_decision
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

__all__ = ["bubblewrap"]
pytestmark = pytest.mark.system

#: An extension that leaves a file behind if it runs.
EXTENSION = "from pathlib import Path\\nPath('{}').touch()\\ndef setup(fl): pass\\n"
NAMES = (".fairlead", ".pi", ".omp", ".xcsh")


@pytest.fixture
def root() -> Iterator[Path]:
    with folder() as made:
        yield made


def run(host: Stage, command: str) -> str:
    return host.request("bash", command=command)["data"]["output"]


def start_in(root: Path, cwd: Path) -> None:
    """Start an agent there as the user would, in a project that is trusted."""

    async def ask() -> None:
        env = {"FAIRLEAD_HOME": str(root / "home"), "HOME": str(root / "user"), "PATH": "/usr/bin:/bin"}
        model = Scripted([Turn(text="ok")])
        async with Agent(model=SCRIPTED_MODEL, stream=model, cwd=cwd, env=env, trust=True) as agent:
            await agent.ask("hi")

    asyncio.run(ask())


@pytest.mark.parametrize("where", ["", "sub/", "a/b/c/", "node_modules/pkg/"])
def test_planted_extensions_do_not_run_at_the_next_start(root: Path, where: str) -> None:
    witness = root / "witness"
    with sandboxed(root) as host:
        cwd = host.around.cwd
        planted = (
            f'mkdir -p {where}.fairlead/extensions && printf "{EXTENSION.format(witness)}" > {where}.fairlead/extensions/x.py'
        )
        said = run(host, planted)
        if where:
            assert f"{where}.fairlead is now {where}.fairlead-from-sandbox" in said
    start_in(root, cwd / where)
    assert not witness.exists()


@pytest.mark.parametrize("name", [*NAMES, ".mcp.json"])
@pytest.mark.parametrize("how", ["folder", "link", "renamed"])
def test_no_name_that_agents_read_is_left_behind_below_the_working_directory(root: Path, name: str, how: str) -> None:
    lay = {
        "folder": f"mkdir -p sub/{name}/extensions && touch sub/{name}/extensions/x.py",
        "link": f"mkdir -p sub conf/extensions && touch conf/extensions/x.py && ln -s ../conf sub/{name}",
        "renamed": f"mkdir -p sub conf/extensions && touch conf/extensions/x.py && mv conf sub/{name}",
    }[how]
    with sandboxed(root) as host:
        said = run(host, lay)
        assert "because agents outside the sandbox would run them" in said
        assert not (host.around.cwd / "sub" / name).exists() and not (host.around.cwd / "sub" / name).is_symlink()
        assert (host.around.cwd / "sub" / f"{name}-from-sandbox" / "extensions/x.py").exists()


def test_files_that_agents_read_are_read_only_in_the_sandbox(root: Path) -> None:
    files = {
        "sub/.mcp.json": "{}",
        "sub/.pi/extensions/a.ts": "one",
        "conf/extensions/x.py": "two",
        "deep/er/.omp/config.yml": "{}",
    }
    with sandboxed(root, files=files) as host:
        cwd = host.around.cwd
        (cwd / "linked").mkdir()
        (cwd / "linked/.fairlead").symlink_to("../conf")
        for attempt in (
            "echo evil > sub/.mcp.json",
            "echo evil > sub/.pi/extensions/a.ts",
            "touch sub/.pi/extensions/b.ts",
            "mv sub other",
            "rm -rf sub/.pi",
            "echo evil > conf/extensions/x.py",
            "mv conf conf2",
            "rm -rf deep/er/.omp",
            "mount --bind /tmp sub/.pi",
        ):
            assert host.request("bash", command=attempt)["data"]["exitCode"] != 0, attempt
        assert {name: (cwd / name).read_text() for name in files} == files
        # A link that leads elsewhere is another link.
        said = run(host, "mkdir -p evil/extensions && touch evil/extensions/y.py && ln -sfn ../evil linked/.fairlead")
        assert "linked/.fairlead is now linked/.fairlead-from-sandbox" in said


def settings(**values: Any) -> dict[str, str]:
    return {".fairlead/settings.json": json.dumps(values)}


def servers(*command: str, **more: Any) -> dict[str, str]:
    return {".mcp.json": json.dumps({"mcpServers": {"s": {"command": command[0], "args": command[1:], **more}}})}


@pytest.mark.parametrize(
    ("files", "code"),
    [
        (settings(extensions=["../tools/ext.py"]), "tools/ext.py"),
        (settings(extensions=["../tools"]), "tools/ext.py"),
        (servers("python3", "tools/server.py"), "tools/server.py"),
        (servers("./tools/server.sh"), "tools/server.sh"),
        (servers("sh", "-c", "cd tools && exec ./server.sh"), "tools/server.sh"),
        (servers("env", "node", "--require=./tools/hook.js", "tools/main.js"), "tools/hook.js"),
        (servers("uv", "--directory", "tools", "run", "server.py"), "tools/server.py"),
        (servers("uv", "run", "--directory", "./tools", "my-server"), "tools/src/my_server/__init__.py"),
        (servers("python3", "-m", "tools.server"), "tools/server.py"),
        (servers("server.sh", env={"PATH": "tools:/usr/bin"}), "tools/server.sh"),
        (servers("server.py", cwd="tools") | servers("python3", "server.py", cwd="tools"), "tools/server.py"),
        (servers("${NOTHING:-./tools/server.sh}"), "tools/server.sh"),
        (servers("npx", "-y", "@scope/server@1.2"), "node_modules/@scope/server/index.js"),
        (servers("uvicorn", "tools.server:app"), "tools/server.py"),
        (servers("fastmcp", "run", "tools/server.py:mcp"), "tools/server.py"),
        (servers("node", "."), "index.js"),
        (servers("docker", "compose", "run", "mcp"), "docker-compose.yml"),
        (servers("go", "run", "./tools"), "go.mod"),
    ],
    ids=str,
)
def test_code_that_settings_and_servers_name_is_read_only_inside(root: Path, files: dict[str, str], code: str) -> None:
    package = {"node_modules/@scope/server/package.json": "{}"} if code.startswith("node_modules") else {}
    with sandboxed(root, flags=["--no-approve"], files={**files, **package, code: "mine"}) as host:
        top = str(Path(code).parent)
        for attempt in (f"echo evil > {code}", f"rm {code}", f"mv {code} {code}2", f"mv {top} other && mkdir -p {top}"):
            host.request("bash", command=attempt)
        assert (host.around.cwd / code).read_text() == "mine"
        run(host, "touch data.db; echo fine > ordinary.py")
        assert (host.around.cwd / "ordinary.py").read_text() == "fine\n"


@pytest.mark.parametrize(
    ("files", "code"),
    [
        (settings(extensions=["../tools/ext.py"]), "tools/ext.py"),
        (servers("python3", "tools/server.py"), "tools/server.py"),
        (servers("npx", "server"), "node_modules/.bin/server"),
        (servers("python3", "-m", "server"), "server.py"),
        (servers("node", "."), "package.json"),
        (servers("python3", "."), "__main__.py"),
        (servers("make", "-s", "mcp") | {"Makefile": "mcp:"}, "GNUmakefile"),
        (servers("just", "mcp") | {"justfile": "mcp:"}, ".justfile"),
        (servers("docker", "compose", "run", "mcp") | {"docker-compose.yml": "{}"}, "compose.yaml"),
        (servers("deno", "task", "mcp"), "deno.json"),
        (servers("cargo", "run") | {"Cargo.toml": ""}, "build.rs"),
    ],
    ids=str,
)
def test_named_code_that_does_not_exist_yet_is_renamed(root: Path, files: dict[str, str], code: str) -> None:
    with sandboxed(root, flags=["--no-approve"], files=files) as host:
        said = run(host, f"mkdir -p $(dirname {code}) && echo evil > {code}")
        assert f"{code} is now {code}-from-sandbox" in said
        assert not (host.around.cwd / code).exists()


@pytest.mark.parametrize(
    ("files", "code"),
    [
        (servers("python3", "server.py"), ".venv/bin/python3"),
        (servers("my-server"), ".venv/bin/my-server"),
        (servers("env", "X=1", "node", "server.js"), ".venv/bin/node"),
        (servers("sh", "-c", "cd . && python3 server.py"), ".venv/bin/python3"),
        (servers("./run.sh") | {"run.sh": "#!/usr/bin/env -S python3 -u\n"}, ".venv/bin/python3"),
        (servers("python3", cwd="sub", env={"PATH": "../tools:/usr/bin"}) | {"sub/x": ""}, "tools/python3"),
    ],
    ids=str,
)
@pytest.mark.parametrize("exists", [True, False])
def test_programs_that_servers_find_on_the_path_are_not_planted(
    root: Path, files: dict[str, str], code: str, exists: bool
) -> None:
    """In a shell with an activated environment, PATH begins with a folder of the project."""
    env = {"PATH": f"{root}/project/.venv/bin:{os.environ['PATH']}"}
    with sandboxed(root, files={**files, **({code: "mine"} if exists else {})}, more=env) as host:
        said = run(host, f"mkdir -p $(dirname {code}); echo evil > {code}; true")
        planted = host.around.cwd / code
        assert (planted.read_text() == "mine") if exists else (not planted.exists() and "is now" in said)
        assert host.request("bash", command="mkdir -p .venv/bin; echo fine > .venv/bin/other")["data"]["exitCode"] == 0


def test_the_interpreter_that_a_script_names_is_not_replaced(root: Path) -> None:
    files = {
        **servers(".venv/bin/my-server"),
        ".venv/bin/python": "mine",
        ".venv/bin/my-server": f"#!{root}/project/.venv/bin/python\n",
    }
    with sandboxed(root, files=files) as host:
        run(host, "echo evil > .venv/bin/python")
        assert (host.around.cwd / ".venv/bin/python").read_text() == "mine"


@pytest.mark.parametrize(
    ("variable", "code"), [("--require ./hook.js", "hook.js"), ("--import=./a/hook.mjs", "a/hook.mjs"), ("-r hook.js", "hook.js")]
)
def test_code_that_variables_load_into_other_programs_is_read_only(root: Path, variable: str, code: str) -> None:
    with sandboxed(root, files={code: "mine"}, more={"NODE_OPTIONS": variable}) as host:
        run(host, f"echo evil > {code}; rm {code}")
        assert (host.around.cwd / code).read_text() == "mine"


def test_files_named_by_user_commands_are_read_only_in_the_sandbox(root: Path) -> None:
    files = {"bin/key": "mine", "env.sh": "true", "mine/ext.py": "def setup(fl): pass\n", "server.py": "mine"}
    own = {"shellCommandPrefix": ". ./env.sh", "extensions": [str(root / "project/mine/ext.py")]}
    with sandboxed(root, files=files, settings=own) as host:
        home = host.around.home
        (home / "mcp.json").write_text(json.dumps({"mcpServers": {"u": {"command": "python3", "args": ["server.py"]}}}))
        (home / "auth.json").write_text(json.dumps({"anthropic": {"type": "api_key", "key": "!bin/key"}}))
        for name in files:
            assert host.request("bash", command=f"echo evil > {name}")["data"]["exitCode"] != 0, name


def test_a_trusted_folder_does_not_cover_what_appears_in_it(root: Path) -> None:
    """Without a sandbox, or by another program."""
    home, witness = Home(root / "home"), root / "witness"
    (root / "work/sub").mkdir(parents=True)
    save_decision(home, root / "work", True)

    async def ask() -> list[str]:
        env = {"FAIRLEAD_HOME": str(home.root), "HOME": str(root / "user"), "PATH": "/usr/bin:/bin"}
        async with Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="ok")]), cwd=root / "work/sub", env=env) as agent:
            await agent.ask("hi")
            return list(agent.warnings)

    planted = root / "work/sub/.fairlead/extensions/x.py"
    planted.parent.mkdir(parents=True)
    planted.write_text(EXTENSION.format(witness).replace("\\n", "\n"))
    (warning,) = asyncio.run(ask())
    assert not witness.exists() and "other code than when it was trusted: .fairlead/extensions" in warning


def test_a_path_behind_a_runner_does_not_make_all_packages_read_only(root: Path) -> None:
    files = {"node_modules/.bin/other": "", "node_modules/other/index.js": "", "tools/server.ts": ""}
    with sandboxed(root, files={**servers("bun", "run", "./tools/server.ts"), **files}) as host:
        made = host.request("bash", command="mkdir node_modules/new && echo fine > node_modules/.bin/other")["data"]
        assert made["exitCode"] == 0, made
        assert host.request("bash", command="echo evil > tools/server.ts")["data"]["exitCode"] != 0
