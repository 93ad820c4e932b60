"""Packages of pi: installed with the user's npm and git, listed where pi lists them, and loaded from there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from tests.cli.command import Command

EXTENSION = 'export default (pi) => { pi.registerCommand("hi", { description: "Greets", handler: async () => {} }); };'
MANIFEST = json.dumps({"name": "greeter", "pi": {"extensions": ["./src/*.ts", "!src/old.ts"], "prompts": ["./texts"]}})

#: Prints what npm 11 prints for a package that does not exist.
FAILING_NPM = """#!/bin/sh
cat >&2 <<END
npm error code E404
npm error 404 Not Found - GET http://127.0.0.1/gone
npm error 404
npm error Could not find it.
npm notice
npm notice To update run: npm install -g npm@11
npm error A complete log of this run can be found in: /tmp/log
END
exit 1
"""
#: Stands in for npm: installs a package from a folder beside it.
NPM = """#!/bin/sh
echo "$@" >> "$HOME/npm.log"
command="$1"; shift
case "$command" in
  install) case "$1" in @*/*) name="${1%@*}" ;; -*) exit 0 ;; *) name="${1%%@*}" ;; esac
    mkdir -p node_modules && cp -r "$HOME/registry/$name" node_modules/ ;;
  uninstall) rm -r "node_modules/$1" ;;
esac
"""


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def package(folder: Path) -> Path:
    files = {"src/index.ts": EXTENSION, "src/old.ts": "throw new Error('old')", "texts/review.md": "Review."}
    return put(folder, {"package.json": MANIFEST, **files})


def commands(fairlead: Command, *flags: str) -> list[str]:
    """The slash commands that an agent offers."""
    flags = ("--dialect", "pi", "--mode", "rpc", "--on-eof", "finish", *flags)
    done = fairlead(*flags, input='{"id":1,"type":"get_commands"}\n')
    assert done.returncode == 0, done.stderr
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    (answer,) = [frame for frame in frames if frame.get("command") == "get_commands"]
    return [command["name"] for command in answer["data"]["commands"]]


def test_a_folder_is_listed_and_stays_where_it_is(fairlead: Command) -> None:
    folder = package(fairlead.around.cwd / "greeter")
    done = fairlead("install", "./greeter")
    assert (done.returncode, done.stderr) == (0, "") and str(folder.name) in done.stdout
    assert commands(fairlead) == ["hi", "review"]
    assert "greeter" in fairlead("list").stdout
    assert fairlead("update", "./greeter").stdout.startswith("Left as it is")
    assert fairlead("remove", str(folder)).stdout == f"Removed {folder}\n"
    assert fairlead("remove", str(folder)).returncode == 1
    assert commands(fairlead) == [] and folder.is_dir()


def test_a_folder_is_installed_for_a_project_that_has_no_settings_folder_yet(fairlead: Command) -> None:
    folder = package(fairlead.around.cwd / "greeter")
    done = fairlead("install", "--local", "./greeter")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"Installed ./greeter in {folder.resolve()}\n", "")
    assert json.loads((fairlead.around.cwd / ".fairlead/settings.json").read_text()) == {"packages": ["../greeter"]}


def test_a_folder_outside_a_project_is_not_installed_for_it(fairlead: Command, tmp_path: Path) -> None:
    folder = package(tmp_path / "elsewhere" / "greeter")
    done = fairlead("install", "--local", str(folder))
    assert done.returncode == 1 and "is outside the project" in done.stderr and "without --local" in done.stderr
    assert not (fairlead.around.cwd / ".fairlead").exists()


def test_a_repository_is_cloned_and_updated(fairlead: Command, tmp_path: Path) -> None:
    origin = package(tmp_path / "origin")
    (origin / "package.json").write_text(json.dumps({"pi": {"extensions": ["src/index.ts"]}}))
    git = ["git", "-C", str(origin), "-c", "user.name=x", "-c", "user.email=x@x"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"], ["tag", "v1"]):
        subprocess.run([*git, *arguments], check=True)
    npm(fairlead)
    assert fairlead("install", f"git:file://{origin}").returncode == 0
    assert commands(fairlead) == ["hi"]
    (origin / "src/index.ts").write_text(EXTENSION.replace('"hi"', '"hello"'))
    subprocess.run([*git, "commit", "-qam", "two"], check=True)
    assert fairlead("update").stdout.startswith("Updated git:file://")
    assert commands(fairlead) == ["hello"]
    assert fairlead("install", f"git:file://{origin}@v1").returncode == 0
    assert commands(fairlead) == ["hi"]
    settings = json.loads((fairlead.around.home / "settings.json").read_text())
    assert settings["packages"] == [f"git:file://{origin}@v1"]


def npm(fairlead: Command, text: str = NPM) -> Path:
    """Have `npm` on the PATH be a script that installs from a folder, which is returned."""
    script = put(fairlead.around.home.parent / "bin", {"npm": text}) / "npm"
    script.chmod(0o755)
    env = cast("dict[str, str]", fairlead.around.env)
    env["PATH"] = f"{script.parent}{os.pathsep}{env['PATH']}"
    return Path(env["HOME"]) / "registry"


def test_a_package_comes_from_npm(fairlead: Command) -> None:
    registry = npm(fairlead)
    package(registry / "greeter")
    assert fairlead("install", "npm:greeter@1.0.0").returncode == 0
    assert json.loads((fairlead.around.home / "settings.json").read_text())["packages"] == ["npm:greeter@1.0.0"]
    assert commands(fairlead) == ["hi", "review"]
    assert fairlead("remove", "npm:greeter").returncode == 0
    assert commands(fairlead) == []
    log = (registry.parent / "npm.log").read_text().splitlines()
    assert log[0].startswith("install greeter@1.0.0 --prefix ") and log[0].endswith("--legacy-peer-deps --no-audit --no-fund")


def test_a_package_of_a_project_is_loaded_only_if_the_project_is_trusted(fairlead: Command) -> None:
    package(fairlead.around.cwd / ".fairlead" / "greeter")
    assert fairlead("install", "--local", ".fairlead/greeter").returncode == 0
    assert commands(fairlead) == [] and commands(fairlead, "--approve") == ["hi", "review"]


def test_a_listed_package_that_is_missing_is_reported(fairlead: Command) -> None:
    home, project = fairlead.around.home, fairlead.around.cwd / ".fairlead"
    put(home, {"settings.json": json.dumps({"packages": ["npm:gate@1.0.0", {"source": "./gone"}]})})
    put(project, {"settings.json": json.dumps({"packages": ["npm:other"]})})
    said = fairlead("-p", "hi").stderr
    assert f"{home / 'settings.json'}: The package npm:gate@1.0.0 is not installed" in said and "`fairlead update`" in said
    assert "The package ./gone does not exist. Correct its path, or remove it with `fairlead remove ./gone`." in said
    assert "npm:other" not in said
    assert "The package npm:other is not installed" in fairlead("-p", "--approve", "hi").stderr


def test_an_update_installs_what_a_trusted_project_lists(fairlead: Command) -> None:
    package(npm(fairlead) / "greeter")
    put(fairlead.around.cwd, {".fairlead/settings.json": '{"packages": ["npm:greeter"]}'})
    assert "not installed" in fairlead("list").stdout
    for words in (["update"], ["update", "npm:greeter"]):
        done = fairlead(*words)
        assert "is not trusted" in done.stderr and not (fairlead.around.cwd / ".fairlead/npm").exists(), words
    assert fairlead("trust").returncode == 0
    for words in (["update"], ["update", "npm:greeter"]):
        done = fairlead(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, "Updated npm:greeter\n", ""), words
    assert commands(fairlead) == ["hi", "review"]


def test_in_the_directory_of_the_home_its_packages_are_listed_once(fairlead: Command) -> None:
    put(fairlead.around.home, {"settings.json": '{"packages": ["npm:greeter"]}'})
    (fairlead.around.cwd / ".fairlead").symlink_to(fairlead.around.home)
    assert fairlead("list").stdout == "User packages:\n  npm:greeter\n    not installed\n"


def test_an_update_without_packages_says_that_there_are_none(fairlead: Command) -> None:
    assert fairlead("update").stdout == "No packages are installed.\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["install"], "usage: fairlead install SOURCE [--local]"),
        (["install", "./none"], "none does not exist."),
        (["install", "npm:"], "npm: does not name a package. Expected npm:NAME"),
        (["install", "./empty"], "brings no extensions, skills or prompts"),
        (["update", "npm:none"], "npm:none is not installed"),
    ],
)
def test_package_commands_explain_failures(fairlead: Command, words: list[str], error: str) -> None:
    put(fairlead.around.cwd, {"empty/themes/x.json": "{}"})
    done = fairlead(*words)
    assert done.returncode in (1, 2) and error in done.stderr


def test_a_package_is_installed_for_one_run(fairlead: Command) -> None:
    package(npm(fairlead) / "greeter")
    for _ in range(2):
        assert commands(fairlead, "-e", "npm:greeter") == ["hi", "review"]
    assert commands(fairlead) == [] and fairlead("list").stdout == "No packages are installed.\n"
    log = Path(fairlead.around.env["HOME"], "npm.log").read_text().splitlines()
    assert [line.split()[:2] for line in log] == [["install", "greeter@latest"]]
    (npm(fairlead) / "greeter").rename(npm(fairlead) / "gone")
    assert commands(fairlead, "-e", "npm:greeter") == ["hi", "review"]


def test_a_package_that_cannot_be_installed_for_a_run_is_an_error_unless_errors_do_not_matter(fairlead: Command) -> None:
    npm(fairlead)
    done = fairlead("--mode", "rpc", "-e", "npm:nothing", input="")
    assert done.returncode == 1 and 'Failed to load extension "npm:nothing": ' in done.stderr
    assert commands(fairlead, "-e", "npm:nothing", "--extension-errors", "continue") == []


def test_a_repository_is_cloned_for_one_run(fairlead: Command, tmp_path: Path) -> None:
    origin = package(tmp_path / "origin")
    git = ["git", "-C", str(origin), "-c", "user.name=x", "-c", "user.email=x@x"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"], ["tag", "v1"]):
        subprocess.run([*git, *arguments], check=True)
    npm(fairlead)
    assert commands(fairlead, "-e", f"git:file://{origin}") == ["hi", "review"]
    (origin / "src/index.ts").write_text(EXTENSION.replace('"hi"', '"hello"'))
    subprocess.run([*git, "commit", "-qam", "two"], check=True)
    assert commands(fairlead, "-e", f"git:file://{origin}") == ["hi", "review"]
    assert fairlead("update").stdout.startswith("Updated git:")
    assert commands(fairlead, "-e", f"git:file://{origin}") == ["hello", "review"]
    assert commands(fairlead, "-e", f"git:file://{origin}@v1") == ["hi", "review"]


def test_an_interrupted_clone_is_cloned_again(fairlead: Command, tmp_path: Path) -> None:
    origin = package(tmp_path / "origin")
    git = ["git", "-C", str(origin), "-c", "user.name=x", "-c", "user.email=x@x"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *arguments], check=True)
    npm(fairlead)
    bin = fairlead.around.home.parent / "bin"
    put(bin, {"git": '#!/bin/sh\nfor last in "$@"; do :; done\nmkdir -p "$last/.git"\nexit 1\n'})
    (bin / "git").chmod(0o755)
    assert fairlead("install", f"git:file://{origin}").returncode == 1
    (bin / "git").unlink()
    assert fairlead("install", f"git:file://{origin}").returncode == 0
    assert commands(fairlead) == ["hi", "review"]


@pytest.mark.parametrize("source", ["npm:..", "npm:-g", "git:host.example/../../..", "git:-x/y", "git:file:///x@--upload-pack=x"])
def test_names_that_are_options_or_lead_elsewhere_are_refused(fairlead: Command, source: str) -> None:
    npm(fairlead)
    before = sorted(fairlead.around.home.parent.rglob("*"))
    done = fairlead("install", source)
    assert done.returncode == 1 and " is not " in done.stderr
    assert sorted(fairlead.around.home.parent.rglob("*")) == before


def test_a_version_that_does_not_exist_leaves_nothing_behind(fairlead: Command, tmp_path: Path) -> None:
    origin = package(tmp_path / "origin")
    git = ["git", "-C", str(origin), "-c", "user.name=x", "-c", "user.email=x@x"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *arguments], check=True)
    npm(fairlead)
    for _ in range(2):
        done = fairlead("--mode", "rpc", "-e", f"git:file://{origin}@v9", input="")
        assert done.returncode == 1 and "git reset" in done.stderr


def test_a_manifest_without_extensions_brings_none(fairlead: Command) -> None:
    put(fairlead.around.cwd / "none", {"package.json": '{"pi": {"extensions": []}}', "index.ts": EXTENSION})
    assert commands(fairlead, "-e", "./none") == []


@pytest.mark.parametrize("arguments", [("-e", "./broken"), ("install", "./broken")])
def test_a_manifest_that_names_missing_extensions_loads_no_others(fairlead: Command, arguments: Sequence[str]) -> None:
    manifest = '{"pi": {"extensions": ["gone.ts", "dist/*.js"]}}'
    put(fairlead.around.cwd / "broken", {"package.json": manifest, "other.ts": EXTENSION, "index.ts": EXTENSION})
    done = fairlead(*(["--mode", "rpc"] if arguments[0] == "-e" else []), *arguments, input="")
    assert done.returncode == 1
    assert "has no extension that its manifest names: gone.ts, dist/*.js" in done.stderr
    assert commands(fairlead) == []


@pytest.mark.parametrize("named", ['["gone.ts"]', "[]"])
def test_a_folder_of_extensions_falls_back_to_an_index(fairlead: Command, named: str) -> None:
    manifest = f'{{"pi": {{"extensions": {named}}}}}'
    files = {"package.json": manifest, "index.ts": EXTENSION, "other.ts": "throw new Error('other')"}
    put(fairlead.around.home / "extensions" / "broken", files)
    assert commands(fairlead) == ["hi"]


def test_a_manifest_with_something_else_than_text_does_not_count(fairlead: Command) -> None:
    manifest = '{"pi": {"extensions": ["other.ts", 5]}}'
    files = {"package.json": manifest, "other.ts": "throw new Error('other')", "extensions/hello.ts": EXTENSION}
    put(fairlead.around.cwd / "odd", files)
    assert fairlead("install", "./odd").returncode == 0
    assert commands(fairlead) == ["hi"]


def test_nothing_is_installed_if_it_cannot_be_listed(fairlead: Command) -> None:
    package(npm(fairlead) / "greeter")
    (fairlead.around.home / "settings.json").write_text("{broken")
    assert fairlead("install", "npm:greeter").returncode == 1
    assert not (fairlead.around.home / "npm").exists()
    (fairlead.around.home / "settings.json").unlink()
    assert fairlead("install", "").returncode == 1


def test_hosts_see_which_package_brought_a_command(fairlead: Command) -> None:
    folder = package(fairlead.around.cwd / "greeter").resolve()
    assert fairlead("install", "./greeter").returncode == 0
    # At the end of its input, fairlead waits for the loading of extensions only so.
    told = fairlead("--mode", "rpc", "--dialect", "pi", "--on-eof", "finish", input='{"type": "get_commands"}\n').stdout
    info = [each["sourceInfo"] for each in json.loads(told.splitlines()[0])["data"]["commands"]]
    (text,) = json.loads((fairlead.around.home / "settings.json").read_text())["packages"]
    assert [(each["source"], each["origin"], each["scope"]) for each in info] == [(text, "package", "user")] * 2
    assert [each["baseDir"] for each in info] == [str(folder)] * 2
    assert all(each["path"].startswith(f"{folder}/") for each in info)


def test_an_install_that_fails_says_what_npm_says(fairlead: Command) -> None:
    npm(fairlead, FAILING_NPM)
    done = fairlead("install", "npm:gone")
    assert done.returncode == 1
    assert done.stderr.strip() == "Error: npm install failed: E404 Not Found - GET http://127.0.0.1/gone Could not find it."
