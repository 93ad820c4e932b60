"""Plants secrets everywhere that fairlead reads one, lets everything go wrong, and searches everything that it writes.

The provider and the MCP server quote each secret that they are sent in their errors. The model runs `env`. Every secret is found
if it appears in a frame, a log, an error, an export, a recording, a session file, a page of the server or the environment of a
program that a tool starts. `docs/decisions/032-keys-and-tools.md` says who may see which.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.endurance.entries import Figures, Options
from tests.endurance.secrets_programs import COMMAND, EXTENSION, MCP_SERVER, MCP_TOOLS, quoting_provider
from tests.support.surroundings import FAIRLEAD

NAME = "secrets"
TITLE = "Secrets planted in variables, files, headers and URLs, searched for in all that fairlead writes and starts"
STARTS_PROCESSES = True

#: The secrets by the place where each is planted.
SECRETS = {
    place: f"planted-{number:02}-{base64.b32encode(place.encode()).decode().rstrip('=').lower()[:18]}-x9"
    for number, place in enumerate(
        """env-anthropic env-openai env-named env-header env-model-header env-override-header env-auth auth-key auth-access
        auth-refresh models-key models-header url-password mcp-env mcp-header flag-key serve-token proxy-password
        mcp-url-password mcp-url-key""".split()
    )
}
#: So much of the beginning of a secret tells it from the others.
_ENOUGH = len("planted-00-xx")


class Scene:
    """A home with secrets in all of its files, and everything that was written while it was used."""

    def __init__(self, root: Path, port: int) -> None:
        self._root = root
        self.home, self.cwd = root / "home", root / "project"
        self.home.mkdir(parents=True)
        self.cwd.mkdir()
        self._mcp_environment = root / "mcp.json"
        self._write_files(port)
        variables = {
            "ANTHROPIC_API_KEY": "env-anthropic",
            "OPENAI_API_KEY": "env-openai",
            "NAMED_KEY": "env-named",
            "HEADER_VALUE": "env-header",
            "MODEL_HEADER_VALUE": "env-model-header",
            "OVERRIDE_HEADER_VALUE": "env-override-header",
            "AUTH_VALUE": "env-auth",
        }
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "home"),
            "FAIRLEAD_HOME": str(self.home),
            "FAIRLEAD_LOG": "debug",
            "FAIRLEAD_LOCAL_SERVERS": "",
            "LANG": "C.UTF-8",
            **{name: SECRETS[place] for name, place in variables.items()},
            "COPY_OF_A_KEY": SECRETS["env-named"],
        }
        #: What was written, by where.
        self.written: dict[str, str] = {}

    def _write_files(self, port: int) -> None:
        address = f"http://ada:{SECRETS['url-password']}@127.0.0.1:{port}"
        model = {"id": "m", "contextWindow": 100_000, "maxTokens": 1_000, "headers": {"X-Model": "$MODEL_HEADER_VALUE"}}
        named = {
            "baseUrl": address,
            "api": "anthropic-messages",
            "apiKey": "NAMED_KEY",
            "headers": {"X-Plain": SECRETS["models-header"], "X-Variable": "Bearer ${HEADER_VALUE}"},
            "models": [model],
            "modelOverrides": {"m": {"headers": {"X-Override": "$OVERRIDE_HEADER_VALUE"}}},
        }
        plain = {"baseUrl": f"http://127.0.0.1:{port}/v1", "api": "openai-completions", "models": [{"id": "m"}]}
        providers = {
            "named": named,
            "literal": {**plain, "apiKey": SECRETS["models-key"]},
            "stored": plain,
            "by-variable": plain,
            "anthropic": {"baseUrl": f"http://127.0.0.1:{port}"},
        }
        auth = {
            "stored": {"type": "api_key", "key": SECRETS["auth-key"]},
            "by-variable": {"type": "api_key", "key": "$AUTH_VALUE"},
            "logged-in": {
                "type": "oauth",
                "access": SECRETS["auth-access"],
                "refresh": SECRETS["auth-refresh"],
                "expires": 4_102_444_800_000,
            },
        }
        server = self._root / "server.py"
        server.write_text(MCP_SERVER)
        tools = self._root / "tools.py"
        tools.write_text(MCP_TOOLS)
        mcp = {
            "program": {
                "command": sys.executable,
                "args": [str(server), str(self._mcp_environment)],
                "env": {"MCP_TOKEN": SECRETS["mcp-env"]},
            },
            "tools": {"command": sys.executable, "args": [str(tools)], "env": {"MCP_TOKEN": SECRETS["mcp-env"]}},
            "by-address": {
                "url": f"http://ada:{SECRETS['mcp-url-password']}@127.0.0.1:{port}/mcp?api_key={SECRETS['mcp-url-key']}"
            },
            "remote": {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": f"Bearer {SECRETS['mcp-header']}"}},
        }
        for name, content in (
            ("models.json", {"providers": providers}),
            ("auth.json", auth),
            ("mcp.json", {"mcpServers": mcp}),
            ("settings.json", {"retry": {"enabled": False}}),
        ):
            (self.home / name).write_text(json.dumps(content))
        (self.home / "extensions").mkdir()
        (self.home / "extensions" / "failing.py").write_text(EXTENSION)
        (self.home / "serve.token").write_text(SECRETS["serve-token"] + "\n")
        (self.home / "serve.token").chmod(0o600)

    def run(self, name: str, *words: str, said: bytes = b"", seconds: float = 120) -> None:
        """Run the command, and keep what it writes. It may fail: most of this does."""
        done = subprocess.run(
            [FAIRLEAD, *words], env=self.env, cwd=self.cwd, input=said, capture_output=True, timeout=seconds, check=False
        )
        self._keep(name, done.stdout, done.stderr)

    def talk(self, name: str, *words: str, prompts: Sequence[bytes], said: bytes) -> None:
        """Run the command as a host that waits until each of its prompts has ended, then says the rest. Keep what it writes."""
        pipe = subprocess.PIPE
        with subprocess.Popen([FAIRLEAD, *words], env=self.env, cwd=self.cwd, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            assert process.stdin is not None and process.stdout is not None
            lines: list[bytes] = []
            for prompt in prompts:
                process.stdin.write(prompt)
                process.stdin.flush()
                while (line := process.stdout.readline()) and b'"type":"agent_end"' not in line:
                    lines.append(line)
                lines.append(line)
                assert line, f"{name}: no end of a prompt"
            rest, errors = process.communicate(said, timeout=120)
        self._keep(name, b"".join(lines) + rest, errors)

    def _keep(self, name: str, out: bytes, errors: bytes) -> None:
        self.written[f"{name}: stdout"] = out.decode("utf-8", "replace")
        self.written[f"{name}: stderr"] = errors.decode("utf-8", "replace")

    def add_files(self) -> None:
        """Keep what is in the files that fairlead has written, and what the MCP server was given."""
        given = {"models.json", "auth.json", "mcp.json", "settings.json", "serve.token"}
        for path in sorted([*self.home.rglob("*"), *self.cwd.rglob("*")]):
            if path.is_file() and path.name not in given:
                self.written[str(path.relative_to(self._root))] = path.read_text("utf-8", "replace")
        if self._mcp_environment.exists():
            environment = json.loads(self._mcp_environment.read_text())
            assert environment.pop("MCP_TOKEN", None) == SECRETS["mcp-env"], "it did not get its own variable"
            for name in ("HTTPS_PROXY", "HTTP_PROXY"):  # a program needs the address of the proxy, with its password
                environment.pop(name, None)
            self.written["the environment of the MCP server"] = json.dumps(environment)

    def leaks(self) -> list[str]:
        """Return a sentence for each secret that is shown anywhere."""
        found: list[str] = []
        for place, secret in SECRETS.items():
            # The beginning of each is another one, so half of a secret is found too.
            forms = (secret[:_ENOUGH], base64.b64encode(secret.encode()).decode()[: 2 * _ENOUGH], secret[:_ENOUGH].upper())
            for where, text in self.written.items():
                at = next((text.find(form) for form in forms if form in text), -1)
                if at >= 0:
                    found.append(f"{place} is shown in {where}: ...{text[max(0, at - 100) : at + 40]!r}")
        return found


def _hosts(scene: Scene, turns: int) -> None:
    """Let hosts of each dialect ask everything, while the provider fails in every way. `turns` prompts come from the terminal."""
    getters = """get_state get_session_stats get_messages get_available_models get_commands get_tools get_last_assistant_text
    get_available_thinking_levels get_entries get_tree get_fork_messages""".split()
    for model in ("named/m", "literal/m", "stored/m", "by-variable/m", "anthropic/claude-sonnet-4-5"):
        name = model.partition("/")[0]
        prompts = [
            json.dumps({"id": f"p{n}", "type": "prompt", "message": f"go {n}"}).encode() + b"\n" for n in range(turns // 4)
        ]
        lines = [{"type": "bash", "command": COMMAND, "id": "b"}, *({"id": each, "type": each} for each in getters)]
        lines += [{"id": "x", "type": "export_html"}, {"id": "n", "type": "set_model", "provider": "no", "modelId": "such"}]
        said = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        record = ["--record", str(scene.cwd / f"{name}.recording"), "--record-overwrite"]
        for dialect in ("pi", "omp"):
            words = ("--mode", "rpc", "--dialect", dialect, "--model", model, *record)
            scene.talk(f"rpc {dialect} {model}", *words, prompts=prompts, said=said)
    for turn in range(turns):
        model = ("named/m", "anthropic/claude-sonnet-4-5")[turn % 2]
        scene.run(f"print {turn}", "-p", "go", "--model", model, "--output-format", ("text", "json", "stream-json")[turn % 3])
    for how in ("a result", "an error"):
        scene.run(f"tool, {how}", "-p", f"quote it in {how}", "--model", "named/m", "--output-format", "stream-json")
    scene.run("flag", "-p", "go", "--model", "literal/m", "--api-key", SECRETS["flag-key"])
    cwd = str(scene.cwd)
    started: list[tuple[str, dict[str, Any]]] = [("initialize", {"protocolVersion": 1})]
    started.append(("session/new", {"cwd": cwd, "mcpServers": []}))
    scene.run("acp", "acp", said=_requests(started))
    asked: list[tuple[str, dict[str, Any]]] = [("models/list", {}), ("auth/status", {}), ("x", {})]
    asked.append(("session/start", {"working_dir": cwd}))
    scene.run("opal", "--mode", "rpc", "--dialect", "opal", "--model", "named/m", said=_requests(asked))


def _requests(methods: Sequence[tuple[str, dict[str, Any]]]) -> bytes:
    """Return requests of JSON-RPC, one in a line."""
    messages = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params} for number, (method, params) in enumerate(methods)
    ]
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def _commands(scene: Scene) -> None:
    """Run the commands that show something about the home."""
    calls: Sequence[Sequence[str]] = (
        ("doctor", "--model", "named/m"),
        ("doctor", "--json", "--model", "stored/m"),
        ("models",),
        ("models", "--json"),
        ("sessions", "--all", "--json"),
        ("sessions", "show", "last"),
        ("sessions", "show", "last", "--json"),
        ("export", "last", "-"),
        ("usage", "--json"),
        ("logout", "nobody"),
        ("mcp",),
        ("mcp", "login", "by-address"),
        ("replay", str(scene.cwd / "named.recording")),
    )
    for words in calls:
        scene.run(" ".join(words), *words)


def _proxy(scene: Scene) -> None:
    """Use a proxy that is not there, with a password in its address."""
    scene.env["HTTPS_PROXY"] = scene.env["HTTP_PROXY"] = f"http://ada:{SECRETS['proxy-password']}@127.0.0.1:9"
    models = json.loads((scene.home / "models.json").read_text())
    far = {"baseUrl": "http://made-up.invalid", "api": "anthropic-messages", "apiKey": "x", "models": [{"id": "m"}]}
    models["providers"]["far"] = far
    (scene.home / "models.json").write_text(json.dumps(models))
    for words in (("-p", "go", "--model", "far/m"), ("doctor", "--model", "far/m")):
        scene.run(f"proxy {words[0]}", *words)
    del scene.env["HTTPS_PROXY"], scene.env["HTTP_PROXY"]


def _server(scene: Scene) -> None:
    """Serve sessions, and look at all that the server tells."""
    words = [FAIRLEAD, "serve", "--port", "0", "--model", "named/m", "--root", str(scene.cwd)]
    with subprocess.Popen(words, env=scene.env, cwd=scene.cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        text = ""
        while "Ctrl-C" not in text:
            line = process.stdout.readline().decode()
            assert line, text
            text += line
        found = re.search(r":(\d+)\b", text)
        assert found is not None
        address, token = f"http://127.0.0.1:{found[1]}", SECRETS["serve-token"]
        for method, path, body, own in (
            ("GET", "/", None, None),
            ("GET", "/metrics", None, token),
            ("GET", "/metrics", None, "wrong"),
            ("POST", "/v1/sessions", {"name": "x", "cwd": str(scene.cwd)}, token),
            ("GET", "/v1/sessions", None, token),
            ("GET", "/v1/sessions", None, token + "x"),
            ("GET", "/v1/models", None, token),
            ("GET", "/nothing", None, token),
            ("POST", "/v1/sessions", "odd", token),
        ):
            scene.written[f"serve {method} {path} {own == token}"] = _fetched(method, address + path, body, own)
        process.terminate()
        out, errors = process.communicate(timeout=60)
        # The address with the token is printed for the user to open, and nowhere else.
        scene.written["serve: stdout"] = (text + out.decode()).replace(token, "")
        scene.written["serve: stderr"] = errors.decode("utf-8", "replace")


def _fetched(method: str, url: str, body: Any, token: str | None) -> str:
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return f"{dict(response.headers)} {response.read().decode('utf-8', 'replace')}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{dict(error.headers)} {error.read().decode('utf-8', 'replace')}"


def run(options: Options) -> Figures:
    with tempfile.TemporaryDirectory(prefix="fairlead-secrets-") as folder, quoting_provider() as port:
        scene = Scene(Path(folder), port)
        _hosts(scene, options.choose(4, 32))
        _commands(scene)
        _proxy(scene)
        _server(scene)
        scene.add_files()
        leaks = scene.leaks()
        redactions = sum(text.count("[redacted]") for text in scene.written.values())
        size = sum(map(len, scene.written.values()))
    figures = Figures({"secrets": len(SECRETS), "outputs and files searched": len(scene.written)}, leaks)
    figures.done |= {"KiB searched": size >> 10, "redactions": redactions}
    if not any("PWD=" in text for text in scene.written.values()):
        figures.problems.append("the model's program has not run")
    for how in ("a result", "an error"):
        if "not with [redacted]" not in scene.written[f"tool, {how}: stdout"].partition("tool_execution_end")[2]:
            figures.problems.append(f"no tool of an MCP server has failed with {how}")
    failed = sum('"stopReason":"error"' in text for name, text in scene.written.items() if name.startswith("rpc"))
    if failed < 5:
        figures.problems.append(f"only {failed} hosts have seen an error of the provider")
    if redactions < 20:
        figures.problems.append(f"the provider's errors have been seen only {redactions} times: {list(scene.written)}")
    return figures
