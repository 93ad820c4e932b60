"""The TypeScript client: its own tests with node's test runner, against real agents too; the package; the examples."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from bench import peers, typescript_client
from bench.contestants import Turn

from fairlead.testing import ProviderServer

pytestmark = pytest.mark.system

LIMIT = 200
FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))
AGENTS = {
    "fairlead omp": [FAIRLEAD],
    "fairlead pi": [FAIRLEAD, "--dialect", "pi"],
    "fairlead xcsh": [FAIRLEAD, "--dialect", "xcsh"],
}
PEERS = {"pi 0.73": peers.PI_073, "pi 0.87": peers.PI_087, "pi 1.5": peers.PI_15}
#: What is compiled, by its source.
BUILT = typescript_client.FOLDER / "build"
TESTS = BUILT / "clients" / "typescript" / "test"


@pytest.fixture(scope="module", autouse=True)
def client() -> Path:
    return typescript_client.build()


def run_tests(*files: Path, agents: dict[str, list[str]] | None = None, more: dict[str, str] | None = None) -> None:
    environment = {**os.environ, "PYTHON": sys.executable, "AGENTS": json.dumps(agents or {}), **(more or {})}
    command = [str(peers.node()), "--expose-gc", "--test", "--test-reporter=spec", *map(str, files)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^. pass [1-9]", done.stdout, re.MULTILINE), done.stdout


def test_with_an_agent_in_memory() -> None:
    run_tests(*sorted(TESTS.glob("*.test.js")))


def test_processes_that_do_not_behave() -> None:
    run_tests(TESTS / "agents" / "process.test.js")


@pytest.mark.parametrize("name", AGENTS)
def test_with_fairlead(name: str) -> None:
    run_tests(TESTS / "agents" / "family.test.js", TESTS / "agents" / "fairlead.test.js", agents={name: AGENTS[name]})


@pytest.mark.parametrize("name", PEERS)
def test_with_real_peers(name: str) -> None:
    run_tests(TESTS / "agents" / "family.test.js", agents={name: PEERS[name].command()})


def test_with_the_opal_dialect() -> None:
    run_tests(TESTS / "agents" / "opal.test.js", agents={"fairlead opal": [FAIRLEAD]})


def test_with_a_server(tmp_path: Path) -> None:
    authority = trustme.CA()
    files: dict[str, str] = {}
    for name, issuer in (("trusted", authority), ("stranger", trustme.CA())):
        issued = issuer.issue_cert("127.0.0.1", "localhost")
        issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / f"{name}.pem")
        files[name] = str(tmp_path / f"{name}.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    more = {"NODE_EXTRA_CA_CERTS": str(tmp_path / "authority.pem"), "CERTIFICATES": json.dumps(files)}
    run_tests(TESTS / "agents" / "server.test.js", agents={"fairlead": [FAIRLEAD]}, more=more)


# The package


@pytest.fixture(scope="module")
def package(client: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that `npm pack` makes."""
    folder = tmp_path_factory.mktemp("package")
    peers.npm("pack", str(client), "--pack-destination", str(folder))
    [archive] = folder.glob("*.tgz")
    return archive


def test_the_package_has_the_compiled_files_and_nothing_else(package: Path, client: Path) -> None:
    with tarfile.open(package) as archive:
        names = {member.name.removeprefix("package/") for member in archive}
        file = archive.extractfile("package/package.json")
        assert file is not None
        manifest: dict[str, Any] = json.load(file)
    sources = {path.relative_to(client / "src").with_suffix("") for path in (client / "src").rglob("*.ts")}
    compiled = {f"dist/{source}{ending}" for source in sources for ending in (".js", ".d.ts")}
    assert names == compiled | {"package.json", "README.md", "LICENSE"}
    assert not {"preinstall", "install", "postinstall", "prepare"} & manifest["scripts"].keys()
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & manifest.keys()
    files = re.findall(r'"\./(dist/[^"]+)"', json.dumps(manifest["exports"]))
    assert len(files) == 4
    assert set(files) <= names


def test_the_entry_for_browsers_imports_nothing_of_node(client: Path) -> None:
    left, seen = ["browser.js"], set[str]()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        for target in re.findall(r'from "([^"]+)"', (client / "dist" / name).read_text()):
            assert target.startswith("."), f"{name} imports {target}"
            left.append(os.path.normpath(Path(name).parent / target))
    assert "client.js" in seen
    assert "process.js" not in seen


BROWSER = """
import { Client, type Transport } from "fairlead-client";
// @ts-expect-error: there are no processes in a browser
import { spawnAgent } from "fairlead-client";
declare const transport: Transport;
export const client: Promise<Client> = Client.connect(transport);
"""


def test_a_browser_needs_no_types_of_node(client: Path, tmp_path: Path) -> None:
    folder = tmp_path / "node_modules" / "fairlead-client"
    folder.mkdir(parents=True)
    (folder / "package.json").write_bytes((client / "package.json").read_bytes())
    (folder / "dist").symlink_to(client / "dist")
    (tmp_path / "page.ts").write_text(BROWSER)
    resolution = {"module": "esnext", "moduleResolution": "bundler", "customConditions": ["browser"], "preserveSymlinks": True}
    options = {"strict": True, "noEmit": True, "target": "es2022", "lib": ["es2022", "dom"], "types": [], **resolution}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["page.ts"]}))
    typescript_client.compile_project(tmp_path / "tsconfig.json")


CONSUMER = """
import { spawnAgent, hostTool, type ClientEvent, type ExtensionUiRequestEvent } from "fairlead-client";

const parameters = { type: "object" };
const double = hostTool<{ n: number }>({ name: "double", description: "Double", parameters, run: ({ n }) => n * 2 });
const client = await spawnAgent({
  command: process.argv[2]!,
  args: ["--isolated"],
  tools: [double],
});
function show(event: ClientEvent): string {
  switch (event.type) {
    case "message_update":
      return event.message.content.map((block) => (block.type === "text" ? block.text : "")).join("");
    case "extension_ui_request":
      return title(event);
    default:
      return event.type;
  }
}
function title(request: ExtensionUiRequestEvent): string {
  // @ts-expect-error: not every request has options
  void request.options;
  return request.method === "select" ? request.options.join() : request.method === "notify" ? (request.notifyType ?? "info") : "";
}
// @ts-expect-error: there is no such level
const refused: Promise<void> = client.setThinkingLevel({ level: "deep" }).catch(() => {});
await refused;
const run = client.prompt("Double.");
let last = "";
for await (const event of run) last = show(event) || last;
const { messages } = await client.getMessages();
console.log(JSON.stringify([(await run).text, messages.length, last]));
await client.stop();
"""


@pytest.mark.parametrize("runtime", ["node", "bun"])
def test_an_installed_package_works(runtime: str, package: Path, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
    peers.npm("install", str(package), "--prefix", str(tmp_path), "--offline")
    (tmp_path / "consumer.ts").write_text(CONSUMER)
    types = typescript_client.FOLDER / "node_modules" / "@types"
    options = {"strict": True, "module": "nodenext", "target": "es2022", "types": ["node"], "typeRoots": [str(types)]}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["consumer.ts"]}))
    typescript_client.compile_project(tmp_path / "tsconfig.json")
    program = peers.node() if runtime == "node" else peers.bun()
    turns: list[Turn] = [{"toolCalls": [{"name": "double", "arguments": {"n": 21}}]}, {"text": "It is 42."}]
    with started([str(program), "consumer.js", FAIRLEAD], turns, tmp_path) as process:
        output, _ = process.communicate(timeout=LIMIT)
    assert json.loads(output) == ["It is 42.", 4, "prompt_result"]


# The documentation and the examples


def test_npm_installs_what_the_examples_need_and_node_runs_them_as_they_are(client: Path, tmp_path: Path) -> None:
    examples = tmp_path / "examples" / "typescript"
    examples.mkdir(parents=True)
    for name in ("package.json", "host.ts"):
        (examples / name).write_bytes((peers.ROOT / "examples" / "typescript" / name).read_bytes())
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "typescript").symlink_to(client)
    peers.npm("install", "--prefix", str(examples))
    with started([str(peers.node()), "host.ts"], [{"text": "Hello."}], examples) as process:
        said, _ = process.communicate("Hi.\n", timeout=LIMIT)
    assert (process.returncode, "Hello." in said) == (0, True), said


#: What the snippets use without saying what it is.
PRELUDE = """
import { spawnAgent as spawnForAll, type AssistantMessage } from "fairlead-client";
declare function show(message: AssistantMessage): void;
declare function askUser(question: string): Promise<boolean>;
declare function choose(title: string, options: string[]): Promise<string>;
declare const editor: { open(path: string, options: object): Promise<void> };
declare const socket: import("node:net").Socket;
declare const token: string;
"""


def test_the_snippets_compile(client: Path, tmp_path: Path) -> None:
    pages = [peers.ROOT / "docs" / "typescript-client.md", client / "README.md"]
    snippets = [text for page in pages for text in re.findall(r"^```ts\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)]
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for number, snippet in enumerate(snippets):
        known = "" if "const client" in snippet else "const client = await spawnForAll();\n"
        (tmp_path / f"snippet_{number}.ts").write_text(f"{PRELUDE}{known}{snippet}\nexport {{}};\n")
    options = {
        **{"strict": True, "noEmit": True, "module": "nodenext", "target": "es2022", "types": ["node"]},
        "typeRoots": [str(client / "node_modules" / "@types")],
        "paths": {"fairlead-client": [str(client / "dist" / "index.d.ts")]},
    }
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.ts"]}))
    typescript_client.compile_project(tmp_path / "tsconfig.json")


@contextmanager
def started(command: Sequence[str], turns: Sequence[Turn], cwd: Path) -> Generator[subprocess.Popen[str]]:
    """Start a host whose agent asks a model that plays `turns`."""
    with ProviderServer(turns) as provider:
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(cwd),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "no-secret",
            "ANTHROPIC_BASE_URL": provider.url,
        }
        with subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def example(name: str, *arguments: str) -> list[str]:
    return [str(peers.node()), str(BUILT / "examples" / "typescript" / f"{name}.js"), *arguments]


TOUCH: Turn = {"toolCalls": [{"name": "bash", "arguments": {"command": "touch made"}}]}


def test_the_chat_talks_asks_and_reports_failures(tmp_path: Path) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    busy: Turn = {"status": 529, "error": overloaded}
    turns: list[Turn] = [TOUCH, {"text": "Made."}, {"status": 400, "error": "out of credit"}, busy, {"text": "Hello again."}]
    with started(example("chat", "--approval", "ask"), turns, tmp_path) as process:
        said, _ = process.communicate("Make it.\ny\n\nFail.\nHello?\n", timeout=LIMIT)
    assert process.returncode == 0, said
    assert (tmp_path / "made").exists()
    for part in (
        "Allow? [y/N]",
        "[Tool: bash]",
        "Made.\n[completed, ",
        "out of credit",
        "[Trying again: 529 Overloaded]\nHello again.\n[completed, ",
    ):
        assert part in said, said


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh", "pi-2025"])
def test_the_chat_works_with_every_dialect_of_the_family(tmp_path: Path, dialect: str) -> None:
    turns: list[Turn] = [{"text": "Made."}, {"status": 400, "error": "out of credit"}, {"text": "Hello again."}]
    with started(example("chat", "--dialect", dialect), turns, tmp_path) as process:
        said, _ = process.communicate("Make it.\nFail.\nHello?\n", timeout=LIMIT)
    assert process.returncode == 0, said
    for part in ("Made.\n[completed, ", "out of credit", "Hello again.\n[completed, "):
        assert part in said, said


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh", "pi-2025"])
def test_an_interrupt_stops_the_answer_and_the_chat_continues(tmp_path: Path, dialect: str) -> None:
    turns: list[Turn] = [{"text": "Endless ", "hangAfter": 1}, {"text": "Back."}]
    with started(example("chat", f"--dialect={dialect}"), turns, tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("Talk.\n")
        process.stdin.flush()
        said = ""
        while "Endless" not in said:
            said += process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate("Still there?\n", timeout=LIMIT)
    assert process.returncode == 0
    assert "[aborted, " in rest
    assert "Back." in rest


def test_the_first_host_asks_fails_and_resumes(tmp_path: Path) -> None:
    turns: list[Turn] = [TOUCH, {"text": "Noted."}, {"status": 400, "error": "out of credit"}, TOUCH, {"text": "Not made."}]
    with started(example("host"), turns, tmp_path) as process:
        said, _ = process.communicate("Remember me.\ny\nFail.\nMake it.\nmaybe\n", timeout=LIMIT)
    assert process.returncode == 0, said
    for part in ("touch made\n", "Allow this? [y/N]", "Noted.\n", "That did not work: ", "out of credit", "Not made.\n"):
        assert part in said, said
    assert (tmp_path / "made").exists()
    with started(example("host", "--continue"), [{"text": "I remember."}], tmp_path) as process:
        said, _ = process.communicate("Do you remember?\n", timeout=LIMIT)
    assert "I remember.\n" in said
    [session] = tmp_path.glob(".fairlead/sessions/*/*.jsonl")
    assert "Remember me." in session.read_text()
    assert "Do you remember?" in session.read_text()


def test_an_interrupt_aborts_the_run_and_not_the_first_host(tmp_path: Path) -> None:
    with started(example("host"), [{"text": "Endless ", "hangAfter": 1}, {"text": "Back."}], tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("Talk.\n")
        process.stdin.flush()
        assert process.stdout.read(1) == "E"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate("Still there?\n", timeout=LIMIT)
    assert process.returncode == 0
    assert "(aborted)\nBack.\n" in rest


def test_the_first_tool_is_called_and_its_error_reaches_the_model(tmp_path: Path) -> None:
    door = {"toolCalls": [{"name": "restock", "arguments": {"item": "door", "count": 1}}]}
    lamp = {"toolCalls": [{"name": "restock", "arguments": {"item": "lamp", "count": 2}}]}
    with started(example("tool", "Fetch some."), [door, lamp, {"text": "Five."}], tmp_path) as process:
        said, _ = process.communicate(timeout=LIMIT)
    assert (process.returncode, said) == (0, "Five.\n")
    [session] = tmp_path.glob(".fairlead/sessions/*/*.jsonl")
    assert "There is no shelf for a door." in session.read_text()
    assert r"{\"lamp\":5,\"desk\":1}" in session.read_text()


def test_the_bot_keeps_rooms_apart_and_resumes_them(tmp_path: Path) -> None:
    with started(example("bot"), [TOUCH, {"text": "Not allowed."}], tmp_path) as process:
        said, _ = process.communicate("kitchen: Make it.\nkitchen: And now?\n", timeout=LIMIT)
    assert (process.returncode, said) == (0, "kitchen: Not allowed.\n" * 2)
    assert not (tmp_path / "made").exists()
    with started(example("bot"), [{"status": 400, "error": "out of credit"}], tmp_path) as process:
        said, _ = process.communicate("garden: Hi.\nkitchen: Do you remember?\n", timeout=LIMIT)
    assert said.count("Sorry, that did not work: ") == 2
    garden, kitchen = sorted(tmp_path.glob(".fairlead/sessions/*/*.jsonl"), key=lambda path: path.stem.partition("_")[2])
    assert "Make it." in kitchen.read_text()
    assert "Do you remember?" in kitchen.read_text()
    assert "remember" not in garden.read_text()
