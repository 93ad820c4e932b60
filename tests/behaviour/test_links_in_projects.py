"""A repository cannot have files from outside sent to the model: what the provider receives is what counts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.behaviour.test_subagents_over_pipes import answers, gives
from tests.support.opal import Client
from tests.support.stage import Stage, another, says, stage

SECRET = "sk-only-the-user-may-see-this"

#: The files of a project whose text reaches the model, and what the user says to have it there.
KINDS = {
    "AGENTS.md": "go",
    "AGENTS.MD": "go",
    "CLAUDE.md": "go",
    "CLAUDE.MD": "go",
    ".fairlead/SYSTEM.md": "go",
    ".fairlead/APPEND_SYSTEM.md": "go",
    ".fairlead/prompts/leak.md": "/leak",
    ".fairlead/skills/leak/SKILL.md": "/skill:leak",
    ".agents/skills/leak/SKILL.md": "/skill:leak",
    ".claude/skills/leak/SKILL.md": "/skill:leak",
}
#: What each kind looks like when it can be used: the secret is in the description and in the text.
FORM = f"---\nname: leak\ndescription: {SECRET}\n---\n{SECRET}\n"


def linked(path: Path, target: Path) -> None:
    path.symlink_to(target)


def linked_through_the_folder(path: Path, target: Path) -> None:
    """The file is a plain one, but the folder that it is in is a link."""
    path.parent.rmdir()
    target.rename(target.parent / path.name)
    path.parent.symlink_to(target.parent)


def linked_twice(path: Path, target: Path) -> None:
    """By way of a link inside the project, relative to it."""
    project = path.parents[len(path.parts) - len(target.parents[1].parts) - 2]
    (project / "inner").symlink_to(os.path.relpath(target, project))
    path.symlink_to(os.path.relpath(project / "inner", path.parent))


def linked_through_proc(path: Path, target: Path) -> None:
    path.symlink_to(Path("/proc/self/root") / target.relative_to("/"))


def hard_linked(path: Path, target: Path) -> None:
    path.hardlink_to(target)


def leave_secret(host: Stage, name: str, link: Callable[[Path, Path], None]) -> None:
    secret = host.around.root / "outside" / "secret.md"
    secret.parent.mkdir()
    secret.write_text(FORM)
    path = host.around.cwd / name
    path.parent.mkdir(parents=True, exist_ok=True)
    link(path, secret)


def sent(host: Stage) -> str:
    return json.dumps([request.body for request in host.provider.requests])


def ask(host: Stage, message: str) -> None:
    """Say something that may be refused."""
    since = host.mark()
    if host.request("prompt", message=message)["success"]:
        host.until("agent_settled", since=since)


@pytest.mark.parametrize("approval", ["--approve", "--no-approve"])
@pytest.mark.parametrize("name", KINDS)
def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path, name: str, approval: str) -> None:
    with stage(tmp_path, "pi", [says("ok")], flags=[approval, "--verbose"]) as host:
        leave_secret(host, name, linked)
        ask(host, KINDS[name])
        assert SECRET not in sent(host)
        ask(host, "go")
        assert host.provider.requests and SECRET not in sent(host)
        assert f"{Path(name).name}: not read: it leads to {host.around.root}/outside/secret.md, which is outside" in host.stderr()


@pytest.mark.parametrize("link", [linked_through_the_folder, linked_twice, linked_through_proc, hard_linked])
@pytest.mark.parametrize(
    "name", ["AGENTS.md", ".fairlead/SYSTEM.md", ".fairlead/prompts/leak.md", ".agents/skills/leak/SKILL.md"]
)
def test_no_other_way_leads_out_of_the_project(tmp_path: Path, name: str, link: Callable[[Path, Path], None]) -> None:
    if name == "AGENTS.md" and link is linked_through_the_folder:
        pytest.skip("the folder is the project")
    with stage(tmp_path, "pi", [says("ok")], flags=["--verbose"]) as host:
        leave_secret(host, name, link)
        ask(host, KINDS[name])
        ask(host, "go")
        assert host.provider.requests and SECRET not in sent(host)
        assert "not read: " in host.stderr()


@pytest.mark.parametrize(
    "target", ["/proc/self/environ", "/proc/thread-self/environ", "/dev/fd/../environ", "/dev/zero", "/dev/stdin"]
)
@pytest.mark.parametrize("name", KINDS)
def test_the_environment_and_devices_are_never_read(tmp_path: Path, name: str, target: str) -> None:
    with stage(tmp_path, "pi", [says("ok")], env={"SOME_API_KEY": SECRET}) as host:
        path = host.around.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        ask(host, KINDS[name])
        ask(host, "go")
        assert host.provider.requests and SECRET not in sent(host)


def test_not_even_the_users_own_instructions_are_the_environment(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("ok")], env={"SOME_API_KEY": SECRET}, flags=["--verbose"]) as host:
        (host.around.home / "AGENTS.md").symlink_to("/proc/self/environ")
        host.prompt("go")
        assert SECRET not in sent(host)
        assert "environ, which is not a file on a disk" in host.stderr()


def test_the_users_own_files_may_be_links(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("ok")]) as host:
        dotfiles = host.around.root / "dotfiles"
        (dotfiles / "skills" / "mine").mkdir(parents=True)
        (dotfiles / "rules.md").write_text("Use tabs.")
        (dotfiles / "skills" / "mine" / "SKILL.md").write_text("---\nname: mine\ndescription: d\n---\nMy way.")
        (host.around.home / "AGENTS.md").symlink_to(dotfiles / "rules.md")
        (host.around.home / "skills").symlink_to(dotfiles / "skills")
        host.prompt("/skill:mine")
        assert "Use tabs." in sent(host) and "My way." in sent(host)
        assert host.stderr() == ""


def test_links_within_the_project_are_followed_also_if_the_project_is_reached_by_a_link(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("ok")]) as host:
        assert host.leave() == 0
        real = host.around.root / "real"
        host.around.cwd.rmdir()
        (real / ".git").mkdir(parents=True)
        (real / "app").mkdir()
        (real / "docs" / "guide").mkdir(parents=True)
        (real / "docs" / "AGENTS.md").write_text("Use tabs.")
        (real / "docs" / "guide" / "SKILL.md").write_text("---\nname: guide\ndescription: d\n---\nOur way.")
        (real / "app" / "CLAUDE.md").symlink_to("../docs/AGENTS.md")
        (real / "app" / ".agents").mkdir()
        (real / "app" / ".agents" / "skills").symlink_to("../../docs")
        host.around.cwd.symlink_to(real / "app")
        with another(host, "pi") as later:
            later.prompt("/skill:guide")
            assert "Use tabs." in sent(later) and "Our way." in sent(later)
            assert later.stderr() == ""


def test_files_in_the_git_directory_are_not_read(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("ok")]) as host:
        (host.around.cwd / ".git").mkdir()
        (host.around.cwd / ".git" / "config").write_text(f"url = https://user:{SECRET}@example.org/x.git")
        (host.around.cwd / "AGENTS.md").symlink_to(".git/config")
        host.prompt("go")
        assert SECRET not in sent(host)


def test_a_repository_around_the_home_directory_is_not_a_project(tmp_path: Path) -> None:
    """Many keep their whole home directory in git."""
    with stage(tmp_path, "pi", [says("ok")]) as host:
        (tmp_path / ".git").mkdir()
        (host.around.home / "id_rsa").write_text(SECRET)
        (host.around.cwd / "AGENTS.md").symlink_to("../home/id_rsa")
        host.prompt("go")
        assert SECRET not in sent(host)


@pytest.mark.parametrize("target", ["outside", "/proc/self/environ"])
def test_rules_and_agents_of_a_project_are_not_read_from_elsewhere(tmp_path: Path, target: str) -> None:
    rule = f"---\ncondition: 'forbidden'\n---\n{SECRET}\n"
    agent = f"---\nname: leak\ndescription: {SECRET}\n---\n{SECRET}\n"
    turns = [answers("check", "fine"), gives("check", agent="leak"), says("forbidden"), says("ok")]
    with stage(tmp_path, "omp", turns, env={"SOME_API_KEY": SECRET}) as host:
        assert host.leave() == 0
        outside = tmp_path / "outside"
        outside.mkdir()
        for kind, text in (("rules", rule), ("agents", agent)):
            (outside / f"{kind}.md").write_text(text)
            folder = host.around.cwd / ".fairlead" / kind
            folder.mkdir(parents=True)
            (folder / "leak.md").symlink_to(outside / f"{kind}.md" if target == "outside" else target)
        with another(host, "omp", "--verbose") as later:
            later.prompt("go")
            assert later.provider.requests and SECRET not in sent(later)
            assert later.stderr().count("not read: ") == 2


def test_sub_agents_get_nothing_from_outside_either(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [answers("check", "fine"), gives("check"), says("done")]) as host:
        leave_secret(host, "AGENTS.md", linked)
        host.prompt("go")
        assert len(host.provider.requests) == 3 and SECRET not in sent(host)


def test_settings_and_servers_of_a_project_are_not_read_from_elsewhere(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("ok")], flags=["--approve"]) as host:
        assert host.leave() == 0
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "settings.json").write_text('{"steeringMode": "all"}')
        (outside / "mcp.json").write_text('{"mcpServers": {"x": {"command": "touch", "args": ["started"]}}}')
        (host.around.cwd / ".fairlead").symlink_to(outside)
        (host.around.cwd / ".mcp.json").symlink_to(outside / "mcp.json")
        with another(host, "pi", "--approve", "--verbose") as later:
            assert later.request("get_state")["data"]["steeringMode"] == "one-at-a-time"
            later.prompt("go")
            assert not (later.around.cwd / "started").exists()
            for name in (".fairlead/settings.json", ".fairlead/mcp.json", ".mcp.json"):
                assert f"{later.around.cwd}/{name}: not read: " in later.stderr()


@pytest.mark.parametrize("name", ["AGENTS.md", ".agents/skills/leak/SKILL.md"])
def test_clients_of_opal_are_served_without_it_too(tmp_path: Path, name: str) -> None:
    with stage(tmp_path, "opal", [says("ok")], env={"SOME_API_KEY": SECRET}) as host:
        leave_secret(host, name, linked)
        client = Client(host)
        started = client.call("session/start")
        assert (started["context_files"], started["available_skills"]) == ([], [])
        client.prompt(started["session_id"], "go")
        assert host.provider.requests and SECRET not in sent(host)
