"""Fuzzes the files that users and projects write: front matter, models.json, settings, MCP servers, decisions about trust."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from tests.endurance.entries import Figures, Options
from tests.endurance.mutation import Mutator, assert_linear, encoded, json_object, run_cases, same_json, scratch
from tests.support.json_values import is_array, is_object

from fairlead.config import json_files, yaml_files
from fairlead.config.home import Home, PeerHome
from fairlead.config.packages import read_manifest
from fairlead.config.project_files import Budget
from fairlead.config.settings import Settings
from fairlead.config.settings_files import load_settings
from fairlead.config.trust import find_saved_decision, save_decision, trust_path
from fairlead.errors import ConfigError
from fairlead.extend.mcp.config import McpConfigFile, load_servers
from fairlead.extend.search_paths import SearchPath
from fairlead.extend.skills import read_skill, read_template
from fairlead.models.models_json import read_models_json
from fairlead.models.registry import Registry
from fairlead.session import front_matter
from fairlead.session.rules.stream_rules import read_rule, scopes_of
from fairlead.session.slash_commands import Origin
from fairlead.session.subagents.agent_kinds import read_agent

NAME = "documents"
TITLE = "Files of users and projects: front matter, models.json, settings, MCP servers, trust; a damaged restriction stays one"

_MATTERS = (
    "name: a-skill\ndescription: Use when: it rains\nallowed-tools: [read, bash]\nmetadata:\n  version: 1.10\n  on: 'yes'",
    "description: >-\n  folded\n  text\ntools: read, grep\nmodel: p/m\nthinking: high\nname: helper",
    "description: |\n  literal\n\n  text\nscope: [text, 'tool:bash', \"edit(*.py)\"]\nglobs: [*.ts, **/*.tsx]",
    'title: "a \\u00e9 \\n b"\nlist:\n- one\n- {two: [3, 4]}\n- - nested\n# comment\nanchor: &a text\nalias: *a\ntag: !!str 1',
    "disable-model-invocation: true\ndescription: it's # not a comment\n  goes on\ninterruptMode: never\nalwaysApply: false",
)
_FULL = [f"---\n{matter}\n---\nDo it: $1 $@ ${{@:2}} {{{{x}}}}\n".encode() for matter in _MATTERS]
_ODD = [_FULL[0].replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + _FULL[1], b"---\n---\n", b"no front matter", b"---\nopen: x\n"]
MARKDOWN = [*_FULL, *_ODD]
_YAML_TOKENS = (
    *(b"---\n", b"- ", b": ", b"key: ", b"  ", b"\t", b"|\n", b">-\n", b"'", b'"', b"&a", b"*a", b"!!binary ", b"<<: ", b"? "),
    b"%YAML",
)

MODELS: list[Any] = [
    {
        "providers": {
            "local": {
                "baseUrl": "http://127.0.0.1:1/v1/",
                "api": "openai-completions",
                "apiKey": "KEY_OF_LOCAL",
                "headers": {"X-One": "1"},
                "authHeader": True,
                "compat": {"thinkingFormat": "qwen", "toolCallsAsText": True},
                "models": [
                    {
                        "id": "m",
                        "name": "M",
                        "reasoning": True,
                        "input": ["text", "image"],
                        "contextWindow": 1000,
                        "maxTokens": 100,
                        "cost": {"input": 1, "output": 2.5, "cacheRead": 0, "cacheWrite": 0},
                        "thinkingLevelMap": {"high": "max", "low": None},
                    }
                ],
            },
            "anthropic": {"baseUrl": "http://user:pw@127.0.0.1:1", "modelOverrides": {"claude-sonnet-4-5": {"maxTokens": 5}}},
            "login": {"oauth": {"deviceUrl": "http://127.0.0.1:1/d", "tokenUrl": "http://127.0.0.1:1/t", "clientId": "c"}},
        }
    }
]
SETTINGS: list[Any] = [
    {
        "defaultProvider": "p",
        "defaultModel": "m",
        "defaultThinkingLevel": "high",
        "thinkingBudgets": {"low": 1},
        "approvals": {"mode": "deny", "rules": [{"tool": "bash", "pattern": "git *", "action": "allow"}], "timeoutSeconds": 5},
        "protectedPaths": ["secret", "!secret/open"],
        "sandbox": "workspace",
        "skills": ["a", "~/b"],
        "extensions": ["x.py"],
        "packages": ["npm:x"],
        "retry": {"enabled": False, "maxRetries": 1},
        "ttsr": {"enabled": True, "repeatMode": "once"},
        "rateLimits": {"*": {"concurrency": 2}},
        "tools": {"timeoutSeconds": 1.5},
    },
    {"approvals": {"mode": "ask"}, "compaction": {"enabled": True, "reserveTokens": 10}},
    {"approvals": {"rules": [{"tool": "*", "action": "deny"}]}},
]
SERVERS: list[Any] = [
    {
        "mcpServers": {
            "one": {"command": "${CMD:-x}", "args": ["-a", "${HOME}"], "env": {"A": "b"}, "cwd": ".", "timeout": 5},
            "two": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "enabled": True},
        },
        "disabledServers": ["three"],
    }
]
_STRICTNESS = ("auto", "write", "ask", "deny")
_OMP = PeerHome(folder=".omp", layout="omp")
#: What the user has set in the checks of projects.
_GUARDED = {
    "approvals": {"mode": "ask", "rules": [{"tool": "bash", "action": "deny"}]},
    "sandbox": "workspace",
    "protectedPaths": ["secret"],
}


class Documents:
    """The checks, with files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = Home(folder / "home", user=folder / "user")
        self._project = folder / "project"
        for each in (self._home.root, folder / "user", self._project / ".fairlead"):
            each.mkdir(parents=True)
        self._omp = Home(folder / "user" / ".omp" / "agent", user=folder / "user", peer=_OMP)
        self._omp.root.mkdir(parents=True)

    def _json(self, source: random.Random, seeds: Sequence[Any]) -> bytes:
        mutator = Mutator(
            source, [json.dumps(seed, indent=1).encode() for seed in seeds], (b"// x\n", b"/* ", b"*/", b",}", b",]")
        )
        return encoded(mutator.json(source.choice(seeds)), source) if source.random() < 0.6 else mutator.data()

    def markdown(self, source: random.Random) -> None:
        """Skills, templates, agents and rules are read, or refused with a ConfigError; texts are valid Unicode."""
        data = Mutator(source, MARKDOWN, _YAML_TOKENS).data()
        path = self._folder / "some-name.md"
        path.write_bytes(data)
        found = SearchPath(path, Origin(path, "auto", "user"))
        readers: list[Callable[[], Any]] = [
            lambda: read_skill(path, found, [], None, Budget()),
            lambda: read_template(path, found, None, Budget()),
            lambda: read_agent(path, "user"),
            lambda: read_rule(path, "user"),
        ]
        for read in readers:
            try:
                value = read()
            except ConfigError as error:
                assert str(error).startswith(str(path))
                continue
            if hasattr(value, "description"):
                value.description.encode()
            else:
                scopes_of(value[0])
                msgspec.json.encode(value[0])
        self._fields(data.decode("utf-8", "replace"))

    def _fields(self, text: str) -> None:
        try:
            fields, body = front_matter.split(text)
        except front_matter.FrontMatterError:
            return
        assert _is_text(fields) and isinstance(body, str)
        picked, same = front_matter.pick(text, [key for key, value in fields.items() if isinstance(value, str)])
        assert same == body
        assert picked == {key: value.strip() for key, value in fields.items() if isinstance(value, str)}

    def models(self, source: random.Random) -> None:
        """models.json leaves warnings, and models that can be listed."""
        path = self._home.models_path
        path.write_bytes(self._json(source, MODELS))
        registry = Registry.load(self._home, {"HOME": "/"})
        registry.providers()
        if source.random() < 0.25:  # the catalog has many models, which are much work
            msgspec.json.encode(registry.all())
            registry.available()
        warnings: list[str] = []
        for entry in read_models_json(path, warnings, checks_keys=True).values():
            entry.headers_for("m")
        assert all(str(path) in warning for warning in warnings), warnings
        as_yaml = self._folder / "models.yml"
        as_yaml.write_bytes(path.read_bytes())
        read_models_json(as_yaml, [])

    def settings(self, source: random.Random) -> None:
        """A setting that restricts and is damaged becomes no looser than "ask"."""
        data = self._json(source, SETTINGS)
        self._home.settings_path.write_bytes(data)
        (self._project / ".fairlead" / "settings.json").unlink(missing_ok=True)
        settings, _ = load_settings(self._home, self._project)
        if source.random() < 0.2:
            self._persisted(data)
        strictest = _STRICTNESS.index(settings.approvals.mode)
        value = json_object(data)
        if value is None:
            # Python's parser refused it, or a key is there twice. Ours is more lenient, so that it may know better.
            try:
                value = json_files.parse_object(Path("x"), data)
            except ConfigError:
                assert strictest >= 2 or b"approval" not in data.replace(b"\0", b"").lower(), data
                return
        self._check_mode(value.get("approvals"), settings, data)
        if "sandbox" in value and value["sandbox"] not in ("off", None):
            assert settings.sandbox == "workspace", data

    def _check_mode(self, approvals: Any, settings: Settings, data: bytes) -> None:
        mode = approvals.get("mode") if is_object(approvals) else approvals
        if approvals is None or (is_object(approvals) and mode is None):
            return
        expected = mode if is_object(approvals) and isinstance(mode, str) and mode in _STRICTNESS else "ask"
        assert _STRICTNESS.index(settings.approvals.mode) >= _STRICTNESS.index(expected), data
        rules: Any = approvals.get("rules") if is_object(approvals) else None
        if is_array(rules):
            assert len(settings.approvals.rules) >= len(rules), data

    def _persisted(self, data: bytes) -> None:
        """A changed value is there afterwards, and nothing else has changed; or the file is as it was."""
        path = self._home.settings_path
        try:
            before = json_files.parse_object(path, data)
            json_files.change_object(path, "defaultModel", "new é")
        except ConfigError:
            assert path.read_bytes() == data
            return
        after = json_files.parse_object(path, path.read_bytes())
        assert same_json(after, {**before, "defaultModel": "new é"}), data

    def projects(self, source: random.Random) -> None:
        """A project cannot loosen what the user has set, whatever its files say."""
        self._home.settings_path.write_text(json.dumps(_GUARDED))
        path = self._project / ".fairlead" / "settings.json"
        path.write_bytes(self._json(source, SETTINGS))
        settings, _ = load_settings(self._home, self._project, approve=source.choice((True, False, None)))
        assert settings.approvals.mode in ("ask", "deny")
        assert any(rule.tool == "bash" and rule.action == "deny" for rule in settings.approvals.rules)
        assert settings.sandbox == "workspace"
        assert "secret" in settings.protected_paths and not any(each.startswith("!") for each in settings.protected_paths)
        assert settings.shell_path is None and settings.pass_keys == []

    def yaml(self, source: random.Random) -> None:
        """omp's config.yml is read, or leaves a warning; a change leaves everything else as it was."""
        seeds = [
            b"modelRoles:\n  default: p/m:high # mine\ntools:\n  approvalMode: always-ask\n\nlist: [1, 0x10, 1e3, on, ~]\n",
            b"a: &x {b: c}\nd: *x\ne:\n  <<: *x\n  f: |\n    text\n",
            b"# only a comment\n",
        ]
        data = Mutator(source, seeds, _YAML_TOKENS).data()
        path = self._omp.root / "config.yml"
        path.write_bytes(data)
        load_settings(self._omp, self._project)
        try:
            before = yaml_files.parse_object(path, data)
            yaml_files.change_value(path, "modelRoles.default", "q/n")
        except ConfigError:
            assert path.read_bytes() == data
            return
        after = yaml_files.parse_object(path, path.read_bytes())
        assert after.pop("modelRoles")["default"] == "q/n"
        before.pop("modelRoles", None)
        assert same_json(after, before), data

    def servers(self, source: random.Random) -> None:
        """mcp.json leaves problems, and servers."""
        path = self._home.root / "mcp.json"
        path.write_bytes(self._json(source, SERVERS))
        problems: list[str] = []
        for server in load_servers([McpConfigFile(Origin(path, "auto", "user"))], {"TOKEN": "t", "HOME": "/"}, problems):
            assert server.name
        (self._folder / "package.json").write_bytes(self._json(source, [{"name": "x", "pi": {"extensions": ["a.ts"]}}]))
        with suppress(ConfigError):
            read_manifest(self._folder)

    def trust(self, source: random.Random) -> None:
        """A decision about trust that cannot be read is not a yes."""
        other = self._folder / "other"
        path = trust_path(self._home)
        path.unlink(missing_ok=True)
        save_decision(self._home, other, True)
        path.write_bytes(Mutator(source, [path.read_bytes()]).data())
        try:
            decision = find_saved_decision(self._home, self._project)
        except ConfigError:
            return
        assert not decision or b"true" in path.read_bytes(), path.read_bytes()


def _is_text(value: Any) -> bool:
    """Whether a value consists of valid texts, in lists and objects."""
    if is_object(value):
        return all(_is_text(key) and _is_text(each) for key, each in value.items())
    if is_array(value):
        return all(map(_is_text, value))
    if isinstance(value, str):
        value.encode()
    return isinstance(value, str)


def checks(folder: Path) -> dict[str, Callable[[random.Random], object]]:
    """Return the checks by name."""
    documents = Documents(folder)
    return {
        "markdown": documents.markdown,
        "models": documents.models,
        "settings": documents.settings,
        "projects": documents.projects,
        "yaml": documents.yaml,
        "servers": documents.servers,
        "trust": documents.trust,
    }


def growth() -> None:
    """Check that a file costs work in proportion to its size."""
    path = Path("x")

    def fields(size: int, piece: str) -> Callable[[], object]:
        text = "---\n" + piece * (size // len(piece)) + "\n---\n"
        return partial(_quietly, lambda: front_matter.split(text))

    def objects(size: int, piece: str) -> Callable[[], object]:
        data = ('{"a": [' + piece * (size // len(piece))).encode()
        return partial(_quietly, lambda: json_files.parse_object(path, data))

    for piece in ("a: b\n", "- a\n", "a: [b, c]\n", "x" * 50, "a: 'b\n", "# c\n", "a: b\n  c\n", "[", "a: &x y\n", " ", "\n"):
        assert_linear(lambda size, piece=piece: fields(size, piece), size=1 << 12)
    for piece in ("1, ", "// x\n", "/* x */", "/*", "[", '"x", ', "\\", '"', ",", " ", "{", "}"):
        assert_linear(lambda size, piece=piece: objects(size, piece), size=1 << 14)


def _quietly(work: Callable[[], object]) -> None:
    with suppress(ConfigError, front_matter.FrontMatterError):
        work()


def run(options: Options) -> Figures:
    with scratch("documents") as folder:
        figures = run_cases(options, checks(folder), short=1_000, long=1_000_000)
    if not options.short:
        try:
            growth()
        except AssertionError as error:
            figures.problems.append(f"the work grows faster than the file: {error}")
    return figures
