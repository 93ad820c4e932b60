"""Names for MCP servers and their tools."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fairlead.extend.mcp.tools import server_keys, tool_names

LEGAL = re.compile(r"[a-zA-Z0-9_]{1,64}")


def test_plain_names_stay_what_they_are() -> None:
    assert server_keys(["git", "my-files"]) == {"git": "git", "my-files": "my_files"}
    assert tool_names("git", ["git_status"]) == {"git_status": "mcp__git__git_status"}


def test_characters_providers_refuse_in_names_are_replaced() -> None:
    assert server_keys(["my server.v2", "__x__"]) == {"my server.v2": "my_server_v2", "__x__": "x"}
    assert tool_names("s", ["read/file"]) == {"read/file": "mcp__s__read_file"}
    assert tool_names("s", ["fail-it"]) == {"fail-it": "mcp__s__fail_it"}


def test_of_those_that_would_be_the_same_the_one_that_has_the_name_by_right_keeps_it() -> None:
    names = tool_names("s", ["a b", "a_b", "a/b"])
    assert names["a_b"] == "mcp__s__a_b"
    assert len(set(names.values())) == 3
    assert names == tool_names("s", ["a/b", "a_b", "a b"]), "the order does not matter"


@given(st.lists(st.text(), unique=True), st.lists(st.text(max_size=90), unique=True))
def test_all_names_are_legal_and_different(servers: list[str], tools: list[str]) -> None:
    keys = server_keys(servers)
    assert len(set(keys.values())) == len(servers)
    names = [name for key in keys.values() for name in tool_names(key, tools).values()]
    assert len(set(names)) == len(servers) * len(tools)
    assert all(LEGAL.fullmatch(name) for name in names)
