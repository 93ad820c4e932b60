"""`fairlead shim pi --package`: a package that npm installs, and that programs import as pi's SDK."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.command import Command

from fairlead.extend.node import program
from fairlead.extend.node.package import PackageFacts, write_sdk
from fairlead.extend.node.program import find_node, npm_command
from fairlead.testing import ProviderServer

PROGRAM = """
import { createAgentSession, main, ModelRuntime, SessionManager, VERSION } from "@earendil-works/pi-coding-agent";
import { getModel, Type } from "@earendil-works/pi-ai";
import { getModel as same } from "@earendil-works/pi-ai/compat";
import { visibleWidth } from "@earendil-works/pi-tui";
import { Agent } from "@earendil-works/pi-agent-core";

const failure = async (work) => { try { await work(); return "no error"; } catch (error) { return error.message; } };
const model = getModel("anthropic", "claude-sonnet-4-5");
const runtime = await ModelRuntime.create();
const stock = { name: "stock", label: "Stock", description: "d", parameters: Type.Object({ item: Type.String() }),
  execute: async (_id, { item }) => ({ content: [{ type: "text", text: `3 of ${item}` }], details: {} }) };
const { session } = await createAgentSession({ sessionManager: SessionManager.create(process.cwd()), model, modelRuntime: runtime,
  tools: ["stock"], customTools: [stock] });
await session.prompt("How many?");
console.log(JSON.stringify([VERSION, session.model.id, session.getLastAssistantText(), session.messages.length, same === getModel,
  visibleWidth("abc"), (await runtime.getAvailable()).length > 0, process.argv.length, await failure(() => main([])),
  await failure(() => new Agent({})), (await runtime.complete(model, { messages: [] })).errorMessage,
  (await SessionManager.list(process.cwd())).map((each) => each.path === session.sessionFile)]));
"""


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), **variables}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


def node() -> str:
    return find_node(os.environ)


def test_a_program_that_imports_the_sdk_of_pi_runs(fairlead: Command, tmp_path: Path) -> None:
    fairlead("shim", "pi", "--package", str(tmp_path))
    (tmp_path / "program.mjs").write_text(PROGRAM)
    turns = [{"toolCalls": [{"name": "stock", "arguments": {"item": "lamp"}}]}, {"text": "Three."}]
    with ProviderServer(turns) as provider:
        # It ends by itself, although it disposes of nothing.
        done = run(tmp_path, node(), "program.mjs", ANTHROPIC_API_KEY="any", ANTHROPIC_BASE_URL=provider.url)
    assert (done.returncode, done.stderr) == (0, "")
    version, model, text, messages, *rest = json.loads(done.stdout)
    assert (version, model, text, messages) == ("1.5.0", "claude-sonnet-4-5", "Three.", 4)
    assert rest == [
        *(True, 3, True, 2),
        "main() of pi-coding-agent is not available in fairlead.",
        "new Agent() of pi-agent-core is not available in fairlead.",
        "Models cannot be called directly by a program that imports fairlead as pi's SDK. Use createAgentSession().",
        [True],
    ]
    assert list((tmp_path / "home" / ".pi" / "agent" / "sessions").rglob("*.jsonl"))


def test_npm_installs_the_folder_where_hosts_look_for_pi(fairlead: Command, tmp_path: Path) -> None:
    made = fairlead("shim", "pi", "--package", str(tmp_path / "made"))
    assert str(tmp_path / "made" / "dist" / "cli.js") in made.stdout.splitlines()
    npm = npm_command(os.environ, [])
    prefix = ["--prefix", str(tmp_path / "global"), "--offline", "--no-audit", "--no-fund", "--no-update-notifier"]
    installed = run(tmp_path, *npm, "install", "-g", str(tmp_path / "made"), *prefix)
    assert installed.returncode == 0, installed.stderr
    root = run(tmp_path, *npm, "root", "-g", "--prefix", str(tmp_path / "global")).stdout.strip()
    package = Path(root) / "@earendil-works" / "pi-coding-agent"
    manifest = json.loads((package / "package.json").read_text())
    assert (manifest["version"], (package / manifest["bin"]["pi"]).is_file()) == ("1.5.0", True)
    launcher = (tmp_path / "global" / "bin" / "pi").resolve()
    assert launcher.parts[-2:] == ("dist", "cli.js")
    for command in [[str(launcher)], [node(), str(package / "dist" / "bundle" / "cli.js")]]:
        assert run(tmp_path, *command, "--version").stdout == "1.5.0\n"
    look = f"import({json.dumps(str(package / 'dist' / 'index.mjs'))}).then((sdk) => console.log(typeof sdk.createAgentSession))"
    assert run(tmp_path, node(), "-e", look).stdout == "function\n"


def test_a_program_gets_models_in_order_and_sessions_where_it_says(fairlead: Command, tmp_path: Path) -> None:
    fairlead("shim", "pi", "--package", str(tmp_path))
    home = tmp_path / "home" / ".pi" / "agent"
    home.mkdir(parents=True)
    added = {"id": "zero", "name": "zero", "reasoning": False, "input": ["text"], "contextWindow": 1000, "maxTokens": 10}
    own = {"baseUrl": "http://127.0.0.1:1", "api": "anthropic-messages", "apiKey": "none", "models": [added]}
    (home / "models.json").write_text(json.dumps({"providers": {"a-server": own}}))
    (tmp_path / "program.mjs").write_text(
        """
        import * as sdk from "@earendil-works/pi-coding-agent";
        const { createAgentSession, ModelRuntime, SessionManager } = sdk;
        const names = (await (await ModelRuntime.create()).getAvailable()).map((model) => `${model.provider}/${model.id}`);
        const file = `${process.cwd()}/folder/named.jsonl`;
        const { session } = await createAgentSession({ sessionManager: SessionManager.open(file) });
        const failure = await createAgentSession({ cwd: "/nowhere/at/all" }).catch((error) => error.message);
        const source = sdk.createSyntheticSourceInfo("a.md", { source: "sdk" });
        console.log(JSON.stringify([names, session.sessionFile === file, failure, source]));
        session.dispose();
        """
    )
    done = run(tmp_path, node(), "program.mjs", ANTHROPIC_API_KEY="any")
    assert done.stderr == ""
    names, is_named, failure, source = json.loads(done.stdout)
    assert names == [*sorted(names[:-1]), "a-server/zero"] and len(names) > 5
    assert is_named
    assert failure == "The working directory /nowhere/at/all does not exist. The agent of a session needs one."
    assert source == {"path": "a.md", "source": "sdk", "scope": "temporary", "origin": "top-level"}


@pytest.mark.parametrize(("release", "told"), [("pi", ["started"]), ("pi@0.87", [True, False])])
def test_a_program_learns_that_a_prompt_is_accepted_before_its_events(
    release: str, told: list[object], fairlead: Command, tmp_path: Path
) -> None:
    fairlead("shim", release, "--package", str(tmp_path))
    (tmp_path / "program.mjs").write_text(
        """
        import { createAgentSession, SessionManager } from "@earendil-works/pi-coding-agent";
        const { session } = await createAgentSession({ sessionManager: SessionManager.inMemory() });
        const heard = [], told = [];
        session.subscribe((event) => heard.push(event.type));
        const preflightResult = (result) => (told.push(result), heard.push("told"));
        const running = session.prompt("Go", { preflightResult });
        const refused = await session.prompt("No", { preflightResult }).catch((error) => error.message);
        await running;
        const thrown = session.prompt("Again", { preflightResult: () => { throw new Error("in the program"); } });
        console.log(JSON.stringify([heard[0], told, refused, await thrown.catch((error) => error.message)]));
        session.dispose();
        """
    )
    with ProviderServer([{"text": "Done."}]) as provider:
        done = run(tmp_path, node(), "program.mjs", ANTHROPIC_API_KEY="any", ANTHROPIC_BASE_URL=provider.url)
    assert done.stderr == ""
    first, *rest = json.loads(done.stdout)
    assert first == "told"
    assert rest[0] == told and rest[1].startswith("Agent is already processing.") and rest[2] == "in the program"


def test_a_program_finds_the_package_and_stores_keys(fairlead: Command, tmp_path: Path) -> None:
    fairlead("shim", "pi", "--package", str(tmp_path))
    (tmp_path / "program.mjs").write_text(
        """
        import { AuthStorage, getPackageDir, ModelRuntime } from "@earendil-works/pi-coding-agent";
        const runtime = await ModelRuntime.create();
        const failure = async (work) => { try { await work(); return "no error"; } catch (error) { return error.message; } };
        const before = runtime.getProviderAuthStatus("anthropic").configured;
        await runtime.login("anthropic", "api_key", { prompt: async ({ type }) => `a ${type}`, notify() {} });
        console.log(JSON.stringify([getPackageDir(), before, AuthStorage.create().get("anthropic"),
          runtime.getProviderAuthStatus("anthropic").configured,
          await failure(() => runtime.login("anthropic", "oauth", {})),
          await failure(() => runtime.login("ghost", "api_key", {}))]));
        """
    )
    done = run(tmp_path, node(), "program.mjs")
    assert done.stderr == ""
    package, before, stored, after, oauth, unknown = json.loads(done.stdout)
    assert package == str(tmp_path / "node_modules" / "@earendil-works" / "pi-coding-agent")
    assert json.loads((Path(package) / "package.json").read_text())["version"] == "1.5.0"
    assert (before, stored, after) == (False, {"type": "api_key", "key": "a secret"}, True)
    assert oauth == "anthropic has no login of the kind oauth here. Use `fairlead login anthropic`."
    assert unknown == "ghost has no login of the kind api_key here. Use `fairlead login ghost`."


@pytest.mark.parametrize("content", ['{"name": "my-app"}', "not JSON", "[]"])
def test_the_manifest_of_another_package_stays(fairlead: Command, tmp_path: Path, content: str) -> None:
    (tmp_path / "package.json").write_text(content)
    fairlead("shim", "pi", "--package", str(tmp_path))
    fairlead("shim", "pi", "--package", str(tmp_path))
    assert (tmp_path / "package.json").read_text() == content
    assert not (tmp_path / "dist").exists()
    assert (tmp_path / "node_modules" / "@earendil-works" / "pi-tui" / "package.json").exists()


def test_a_program_is_told_when_fairlead_is_gone(tmp_path: Path) -> None:
    facts = PackageFacts("@earendil-works/pi-coding-agent", "1.5.0", "pi", ".pi")
    write_sdk(tmp_path, facts, [str(tmp_path / "gone"), "--as", "pi"])
    (tmp_path / "program.mjs").write_text(
        """
        import { createAgentSession, SessionManager } from "@earendil-works/pi-coding-agent";
        import { getProviders } from "@earendil-works/pi-ai";
        for (const work of [() => createAgentSession({ sessionManager: SessionManager.inMemory() }), getProviders]) {
          try { await work(); } catch (error) { console.log(error.message); }
        }
        """
    )
    done = run(tmp_path, node(), "program.mjs")
    gone = f"fairlead could not be started: spawn {tmp_path / 'gone'} ENOENT"
    assert done.stdout.splitlines() == [gone, gone.replace("spawn ", "spawnSync ")]


def test_no_name_is_both_missing_and_there(tmp_path: Path) -> None:
    facts = PackageFacts("@earendil-works/pi-coding-agent", "1.5.0", "pi", ".pi")
    write_sdk(tmp_path, facts, ["fairlead", "--as", "pi"])
    sdk = tmp_path / "node_modules" / "@earendil-works" / "pi-coding-agent" / "dist" / "sdk"
    missing = Path(program.__file__).parent / "runtime" / "package" / "missing.json"
    (tmp_path / "look.mjs").write_text(
        f"""
        import {{ readFileSync }} from "node:fs";
        const missing = JSON.parse(readFileSync({json.dumps(str(missing))}, "utf8"));
        const files = {{ "pi-coding-agent": "coding-agent", "pi-ai": "ai", "pi-agent-core": "agent-core", "pi-tui": "tui" }};
        for (const [name, file] of Object.entries(files)) {{
          const module = await import(`{sdk}/shims/${{file}}.mjs`);
          console.log(name, ...missing[name].split(" ").filter((each) => each in module));
        }}
        """
    )
    done = run(tmp_path, node(), "look.mjs")
    assert (done.stdout.split(), done.stderr) == (["pi-coding-agent", "pi-ai", "pi-agent-core", "pi-tui"], "")
