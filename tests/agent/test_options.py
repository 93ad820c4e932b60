"""Options of an agent are checked when it is made: what protects must not fail open."""
# A type checker also refuses what these tests refuse at run time:
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fairlead import Agent, AgentOptions, Discovery, McpServer, RateLimit, RateLimits, Storage, Telemetry
from fairlead.agent import keywords, options
from fairlead.cli.flags import UsageError, parse
from fairlead.errors import BadOption, ConfigError
from fairlead.session.behaviour import Behaviour, Confinement
from fairlead.testing import ProviderServer

BAD: list[tuple[str, Any]] = [
    ("sandbox", "Workspace"),
    ("sandbox", "workspace "),
    ("sandbox", "on"),
    ("sandbox", ""),
    ("sandbox", True),
    ("sandbox", False),
    ("sandbox", ["workspace"]),
    ("sandbox", {"mode": "workspace"}),
    ("approval", "Ask"),
    ("approval", "never"),
    ("approval", ""),
    ("approval", False),
    ("trust", "no"),
    ("trust", 0),
    ("thinking", "maximal"),
    ("isolated", "false"),
    ("keep", 1),
    ("discovery", None),
    ("discovery", {"rules": False}),
    ("store", "sessions"),
    ("telemetry", "all"),
    ("rate_limits", 3),
    ("tools", "read"),
    ("tools", ["read", 3]),
    ("exclude_tools", "bash"),
    ("extra_tools", ["read"]),
    ("env", [("A", "b")]),
    ("model", 3),
    ("cwd", None),
]

#: Values of options that are structs, and the field that is wrong in each.
BAD_FIELDS: list[tuple[str, Any, str]] = [
    ("discovery", Discovery(rules="no"), "rules"),  # pyright: ignore[reportArgumentType]
    ("discovery", Discovery(context_files=None), "context_files"),  # pyright: ignore[reportArgumentType]
    ("discovery", Discovery(skills="skills"), "skills"),
    ("discovery", Discovery(find_mcp=0), "find_mcp"),  # pyright: ignore[reportArgumentType]
    ("discovery", Discovery(extension_errors="ignore"), "extension_errors"),  # pyright: ignore[reportArgumentType]
    ("store", Storage(durability="sync"), "durability"),  # pyright: ignore[reportArgumentType]
    ("store", Storage(lease_seconds=0), "lease_seconds"),
    ("store", Storage(store="sqlite:///x.db"), "store"),  # pyright: ignore[reportArgumentType]
    ("telemetry", Telemetry(content="no"), "content"),  # pyright: ignore[reportArgumentType]
    ("rate_limits", RateLimits(priority="high"), "priority"),  # pyright: ignore[reportArgumentType]
    ("rate_limits", RateLimits(limits={"*": 8}), "limits"),  # pyright: ignore[reportArgumentType]
    ("behaviour", Behaviour(mode="tui"), "mode"),  # pyright: ignore[reportArgumentType]
    ("behaviour", Behaviour(models="a,b"), "models"),
    ("behaviour", Behaviour(warn="stderr"), "warn"),  # pyright: ignore[reportArgumentType]
    ("behaviour", Behaviour(confinement="/srv"), "confinement"),  # pyright: ignore[reportArgumentType]
    ("behaviour", Behaviour(confinement=Confinement(shares_home=1)), "confinement: shares_home"),  # pyright: ignore[reportArgumentType]
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_value_that_an_option_cannot_have_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    base = AgentOptions(isolated=True, cwd=tmp_path, env={})
    for make in (lambda: Agent(base, **{name: value}), lambda: Agent(AgentOptions(**{name: value}))):
        with pytest.raises(BadOption, match=f"^{name}: expected .*, found ") as caught:
            make()
        assert isinstance(caught.value, ValueError) and isinstance(caught.value, ConfigError)


@pytest.mark.parametrize(("name", "value", "field"), BAD_FIELDS)
def test_a_struct_with_a_field_that_is_wrong_is_refused(name: str, value: Any, field: str) -> None:
    with pytest.raises(BadOption, match=f"^{name}: {field}: expected .*, found "):
        Agent(AgentOptions(**{name: value}))


def test_a_limit_of_a_provider_must_be_a_number() -> None:
    limits = {"anthropic": RateLimit(concurrency="8")}  # pyright: ignore[reportArgumentType]
    for value in (limits, RateLimits(limits=limits)):
        with pytest.raises(BadOption, match=r"^rate_limits: anthropic: concurrency: expected a whole number .*, found '8'"):
            Agent(rate_limits=value)


def test_the_error_names_the_option_the_value_and_what_it_takes() -> None:
    with pytest.raises(BadOption) as caught:
        Agent(sandbox="Workspace")  # pyright: ignore[reportArgumentType]
    assert str(caught.value) == "sandbox: expected 'off' or 'workspace' or None, found 'Workspace'. Did you mean 'workspace'?"


def test_an_option_that_does_not_exist_is_refused_and_the_closest_one_is_reported() -> None:
    with pytest.raises(TypeError, match=r"^Agent has no option 'sandbx'\. Did you mean 'sandbox'\?$"):
        Agent(sandbx="workspace")  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"^Agent has no option 'zzz'\.$"):
        Agent(zzz=1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"^Agent has no option 'behaviour'\.$"):
        Agent(behaviour=Behaviour())  # pyright: ignore[reportCallIssue]


def test_a_model_in_place_of_the_options_is_refused_with_a_hint() -> None:
    with pytest.raises(TypeError, match=r'^options: expected AgentOptions, found str\. Did you mean Agent\(model="..."\)\?$'):
        Agent("anthropic/claude-sonnet-4-5")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("thinking", "hgih", "found 'hgih'. Did you mean 'high'?"),
        ("tools", ["read", 3], "found 3 as item 1."),
        ("env", {"A": 1}, "expected a mapping in which each key is a string and each value a string or None, found a dict."),
        ("max_cost", 0, "expected a number greater than 0 or None, found 0."),
        ("max_turns", -1, "expected a whole number of at least 0 or None, found -1."),
        ("cwd", "a\0b", r"cwd: expected a path, found 'a\x00b', which contains a NUL character."),
        (
            "discovery",
            Discovery(skills=["a\0b"]),
            r"discovery: skills: expected a path, found ['a\x00b'], which contains a NUL character.",
        ),
        ("store", Storage("a\0b"), r"store: folder: expected a path, found 'a\x00b', which contains a NUL character."),
        (
            "mcp_servers",
            {"a": McpServer(command="x", args="-v")},
            "mcp_servers: a: args: expected a list in which each item is a string, found '-v'.",
        ),
        (
            "mcp_servers",
            {"a": McpServer(command="x", timeout=0)},
            "a: timeout: expected a number greater than 0 or None, found 0.",
        ),
    ],
)
def test_the_error_says_which_value_is_wrong(name: str, value: Any, said: str) -> None:
    with pytest.raises(BadOption) as caught:
        Agent(**{name: value})
    assert str(caught.value).endswith(said)


def test_the_keywords_are_the_fields_of_the_options() -> None:
    fields = [
        (each.target.id, ast.unparse(each.annotation), each.value and ast.unparse(each.value))
        for each in _definition(options, "AgentOptions").body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
    (init,) = [
        each
        for each in _definition(keywords, "AgentKeywords").body
        if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    ]
    parameters = [
        (each.arg, each.annotation and ast.unparse(each.annotation), default and ast.unparse(default))
        for each, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)
    ]
    assert fields.pop()[0] == "behaviour", "the only field that is not public"
    assert [each for each in parameters if each[0] != "shared"] == fields
    documented = re.findall(r"^ {12}(\w+): ", ast.get_docstring(init, clean=False) or "", re.MULTILINE)
    assert [name for name in documented if name in AgentOptions.__struct_fields__] == [name for name, *_ in fields]


def _definition(module: ModuleType, name: str) -> ast.ClassDef:
    tree = ast.parse(inspect.getsource(module))
    return next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)


def test_help_shows_the_keywords() -> None:
    assert inspect.signature(Agent).parameters["approval"].default is None
    assert {*AgentOptions.__struct_fields__} - {*inspect.signature(Agent).parameters} == {"behaviour"}


def test_a_keyword_overrides_the_options_even_with_the_default_value(tmp_path: Path) -> None:
    base = AgentOptions(isolated=True, cwd=tmp_path, env={}, tools=["read"], session_id="one")
    agent = Agent(base, tools=None)
    assert "bash" in agent.session.tools.active and agent.session.history.id == "one"


async def test_good_values_are_taken(tmp_path: Path) -> None:
    agent = Agent(
        isolated=True,
        cwd=str(tmp_path),
        env={},
        sandbox="off",
        approval="deny",
        thinking="low",
        store=Storage(durability="fsync"),
        tools=("read",),
        exclude_tools=[],
        discovery=Discovery(skills=[tmp_path], rules=False),
        rate_limits=RateLimits(limits={"*": RateLimit(concurrency=2)}, priority=1),
    )
    assert agent.session.tools.active == ["read"]
    await agent.close()


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--sandbox", "Workspace"), ("--sandbox", "on"), ("--sandbox", "true"), ("--approval", "Ask"), ("--durability", "Fsync")],
)
def test_flags_take_no_other_spelling_either(flag: str, value: str) -> None:
    for words in ([flag, value], [f"{flag}={value}"]):
        with pytest.raises(UsageError, match=f"^{flag}: expected "):
            parse(words)


def test_without_a_model_the_error_says_how_to_use_a_server_of_this_machine(tmp_path: Path) -> None:
    with ProviderServer([{"text": "Hello!"}], models=[{"id": "tiny"}]) as server:
        env = {"FAIRLEAD_LOCAL_SERVERS": f"ollama={server.url}"}
        with Agent(cwd=tmp_path, isolated=True, env=env) as agent, pytest.raises(ConfigError) as raised:
            agent.ask_sync("Say hello.")
        assert "name the model of a server on this machine, such as ollama/qwen3:8b" in str(raised.value)
        with Agent(cwd=tmp_path, isolated=True, env=env, model="ollama/tiny") as agent:
            assert agent.ask_sync("Say hello.").text == "Hello!"
