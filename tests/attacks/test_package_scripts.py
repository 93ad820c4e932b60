"""Packages whose scripts, settings or dependencies run code when they are installed, with the real npm and a real registry."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.attacks.traps import Trap
from tests.cli.command import Command
from tests.support.npm_registry import NpmRegistry
from tests.support.surroundings import surroundings

from fairlead.extend.node.program import npm_command
from fairlead.testing import ProviderServer

EXTENSION = 'export default (pi) => { pi.registerCommand("%s", { handler: async () => {} }); };'
#: Writes down that a script ran, and what it saw.
CANARY = 'env > canary-$npm_lifecycle_event; env >> "$HOME/canary"'
ALL_SCRIPTS = dict.fromkeys(("preinstall", "install", "postinstall", "prepare", "prepublish", "prepack"), CANARY)
SECRETS = {
    "ANTHROPIC_API_KEY": "sk-ant-canary",
    "NPM_TOKEN": "canary-npm",
    "GITHUB_TOKEN": "canary-github",
    "AWS_SECRET_ACCESS_KEY": "canary-aws",
    "DB_PASSWORD": "canary-password",
    "DATABASE_URL": "postgres://user:canary-url@host/db",
}


@pytest.fixture
def registry() -> Iterator[NpmRegistry]:
    with NpmRegistry() as registry:
        yield registry


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Command]:
    with ProviderServer([{"text": "Hello!"}]) as provider:
        yield Command(provider, surroundings(tmp_path, provider.url))


@pytest.fixture
def user(fairlead: Command, registry: NpmRegistry) -> Command:
    """The command for a user whose npm uses the registry, and whose environment has secrets."""
    env = cast("dict[str, str]", fairlead.around.env)
    env.update(SECRETS)
    Path(env["HOME"]).mkdir(exist_ok=True)
    Path(env["HOME"], ".npmrc").write_text(f"registry={registry.url}\nupdate-notifier=false\n")
    return fairlead


def publish(registry: NpmRegistry, version: str = "1.0.0", command: str = "hi", **manifest: Any) -> None:
    described = {"pi": {"extensions": ["index.js"]}, "type": "module", **manifest}
    registry.publish("greeter", version, {"index.js": EXTENSION % command}, **described)


def canaries(user: Command) -> list[Path]:
    return [path for path in user.around.home.parent.rglob("canary*") if path.is_file()]


def leaked(user: Command) -> list[str]:
    """The secrets that a script has seen."""
    return [name for name, secret in SECRETS.items() if any(secret in path.read_text() for path in canaries(user))]


def commands(user: Command, *flags: str) -> list[str]:
    done = user("--mode", "rpc", "--dialect", "pi", "--on-eof", "finish", *flags, input='{"id":1,"type":"get_commands"}\n')
    assert done.returncode == 0, done.stderr
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    (answer,) = [frame for frame in frames if frame.get("command") == "get_commands"]
    return [command["name"] for command in answer["data"]["commands"]]


def repository(folder: Path, files: dict[str, str]) -> str:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *arguments], check=True)
    return f"file://{folder}"


def test_scripts_of_a_package_and_of_its_dependencies_do_not_run(user: Command, registry: NpmRegistry) -> None:
    registry.publish("helper", "1.0.0", scripts=ALL_SCRIPTS)
    publish(registry, scripts=ALL_SCRIPTS, dependencies={"helper": "1"})
    done = user("install", "npm:greeter")
    assert done.returncode == 0, done.stderr
    assert canaries(user) == [] and commands(user) == ["hi"]
    assert done.stderr == (
        "Note: the install scripts of greeter, helper did not run. If npm:greeter does not work without them, and you trust "
        "them: fairlead install --scripts npm:greeter\n"
    )
    assert user("update").returncode == 0 and user("remove", "npm:greeter").returncode == 0
    assert canaries(user) == []


def test_settings_in_the_repository_of_a_dependency_run_nothing(tmp_path: Path, user: Command, registry: NpmRegistry) -> None:
    """npm prepares such a dependency with npm, in a clone of it."""
    trap = Trap(tmp_path / "trap")
    (tmp_path / "trap/loaded.cjs").write_text(f"require('fs').writeFileSync({str(tmp_path / 'canary-loaded')!r}, '')")
    settings = (
        f"git={trap.path}\nscript-shell={trap.path}\nnode-options=--require={tmp_path}/trap/loaded.cjs\nignore-scripts=false\n"
    )
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    manifest = {"version": "1.0.0", "scripts": ALL_SCRIPTS}
    helper = repository(tmp_path / "helper", {"package.json": json.dumps({"name": "helper", "version": "1.0.0"})})
    needs = {"dependencies": {"helper": f"git+{helper}"}}
    nested = repository(inner, {"package.json": json.dumps({"name": "inner", **manifest, **needs}), ".npmrc": settings})
    needs = {"dependencies": {"inner": f"git+{nested}"}}
    address = repository(outer, {"package.json": json.dumps({"name": "outer", **manifest, **needs}), ".npmrc": settings})
    publish(registry, dependencies={"outer": f"git+{address}"})
    done = user("install", "npm:greeter")
    assert done.returncode == 0, done.stderr
    assert not trap.is_sprung and canaries(user) == [] and commands(user) == ["hi"]


def test_a_package_without_scripts_is_installed_without_a_remark(user: Command, registry: NpmRegistry) -> None:
    publish(registry, scripts={"test": "true"})
    assert user("install", "npm:greeter").stderr == ""


def test_scripts_run_without_secrets_if_the_user_asks_for_them(user: Command, registry: NpmRegistry) -> None:
    publish(registry, scripts={"postinstall": CANARY})
    registry.publish(
        "other", "1.0.0", {"index.js": EXTENSION % "other"}, scripts={"postinstall": CANARY}, pi={"extensions": ["index.js"]}
    )
    assert user("install", "npm:other").returncode == 0
    done = user("install", "--scripts", "npm:greeter")
    assert (done.returncode, done.stderr) == (0, "")
    found = canaries(user)
    assert {path.name for path in found} == {"canary", "canary-postinstall"}
    assert {path.parent.name for path in found if path.name != "canary"} == {"greeter"}
    assert not leaked(user)


def test_a_dependency_from_git_is_not_prepared(user: Command, registry: NpmRegistry, tmp_path: Path) -> None:
    manifest = {"name": "fromgit", "version": "1.0.0", "scripts": ALL_SCRIPTS}
    url = repository(tmp_path / "fromgit", {"package.json": json.dumps(manifest)})
    publish(registry, dependencies={"fromgit": f"git+{url}"})
    done = user("install", "npm:greeter")
    assert canaries(user) == [] and done.returncode == 0, done.stderr


@pytest.mark.parametrize("asked", [False, True])
def test_a_repository_runs_nothing_unless_it_is_asked_for(
    user: Command, registry: NpmRegistry, tmp_path: Path, asked: bool
) -> None:
    registry.publish("helper", "1.0.0", scripts={"install": CANARY})
    manifest = {
        "name": "cloned",
        "version": "1.0.0",
        "pi": {"extensions": ["index.mjs"]},
        "scripts": ALL_SCRIPTS,
        "dependencies": {"helper": "1"},
    }
    settings = f"ignore-scripts=false\ngit={tmp_path}/evil\nscript-shell={tmp_path}/evil\nregistry=http://127.0.0.1:1/\n"
    files = {"package.json": json.dumps(manifest), "index.mjs": EXTENSION % "hi", ".npmrc": settings}
    url = repository(tmp_path / "cloned", files)
    done = user("install", *(["--scripts"] if asked else []), f"git:{url}")
    assert done.returncode == 0, done.stderr
    assert bool(canaries(user)) == asked and commands(user) == ["hi"]
    assert ("did not run" in done.stderr) != asked
    assert not leaked(user)


def test_settings_for_npm_in_a_project_are_refused(user: Command, registry: NpmRegistry, tmp_path: Path) -> None:
    publish(registry)
    npmrc = user.around.cwd / ".fairlead" / "npm" / ".npmrc"
    npmrc.parent.mkdir(parents=True)
    npmrc.write_text(f"registry={registry.url}stolen/${{ANTHROPIC_API_KEY}}/\n")
    done = user("install", "--local", "npm:greeter")
    assert done.returncode == 1 and ".npmrc would tell npm what to run" in done.stderr
    assert registry.asked == []


def test_settings_for_npm_in_the_working_directory_are_not_read(user: Command, registry: NpmRegistry) -> None:
    publish(registry, scripts={"postinstall": CANARY})
    (user.around.cwd / ".npmrc").write_text("registry=http://127.0.0.1:1/\nignore-scripts=false\n")
    (user.around.cwd / "package.json").write_text('{"name": "x", "workspaces": [".fairlead/npm"]}')
    assert user("install", "npm:greeter").returncode == 0
    assert user("install", "--local", "npm:greeter").returncode == 0
    assert canaries(user) == []


def test_a_private_registry_gets_the_token_that_the_users_npmrc_names(fairlead: Command) -> None:
    with NpmRegistry(token="canary-npm") as registry:
        publish(registry, scripts={"postinstall": CANARY})
        env = cast("dict[str, str]", fairlead.around.env)
        env.update(SECRETS)
        npmrc = Path(env["HOME"], ".npmrc")
        npmrc.parent.mkdir(exist_ok=True)
        npmrc.write_text(f"registry={registry.url}\n//{registry.host}/:_authToken=${{NPM_TOKEN}}\n")
        done = fairlead("install", "--scripts", "npm:greeter")
        assert done.returncode == 0, done.stderr
        assert not any("canary-npm" in path.read_text() for path in canaries(fairlead))
        npmrc.write_text(f"registry={registry.url}\n# //{registry.host}/:_authToken=${{NPM_TOKEN}}\n")
        assert fairlead("update").returncode == 1


def test_a_package_for_one_run_is_used_as_it_is_until_it_is_updated(user: Command, registry: NpmRegistry) -> None:
    publish(registry, "1.0.0", "one", scripts={"postinstall": CANARY})
    assert commands(user, "-e", "npm:greeter") == ["one"]
    publish(registry, "2.0.0", "two")
    registry.asked.clear()
    assert commands(user, "-e", "npm:greeter") == ["one"] and registry.asked == []
    assert commands(user, "-e", "npm:greeter@2.0.0") == ["two"]
    assert commands(user, "-e", "npm:greeter@1.0.0") == ["one"]
    registry.asked.clear()
    assert commands(user, "-e", "npm:greeter@2.0.0") == ["two"] and registry.asked == []
    done = user("update")
    assert (done.returncode, done.stdout) == (0, "Updated npm:greeter\n"), done.stderr
    assert commands(user, "-e", "npm:greeter") == ["two"] and canaries(user) == []


def test_a_package_that_is_installed_serves_one_run_too(user: Command, registry: NpmRegistry) -> None:
    publish(registry, "1.0.0", "one")
    assert user("install", "npm:greeter").returncode == 0
    publish(registry, "2.0.0", "two")
    registry.asked.clear()
    for named in ("npm:greeter", "npm:greeter@1.0.0"):
        assert commands(user, "-e", named) == ["one"] and registry.asked == []
    assert "two" in commands(user, "-e", "npm:greeter@2.0.0")


def test_npm_is_real() -> None:
    done = subprocess.run([*npm_command(os.environ, []), "--version"], capture_output=True, text=True, check=True)
    assert int(done.stdout.split(".")[0]) >= 10
