"""Params of Opal's requests: read as declared, or refused in words that clients of Opal know."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.protocol.opal.opal_methods import METHODS, AgentPrompt, ConfigSet, SessionStart
from fairlead.protocol.opal.opal_objects import Method
from fairlead.wire.jsonrpc import BadParams
from fairlead.wire.opal.opal_codec import decode


def refused(declared: type[Method], params: Any) -> tuple[str, str | None]:
    with pytest.raises(BadParams) as caught:
        decode(declared, params)
    return str(caught.value), caught.value.data


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("agent/prompt", {}, "Missing required params: session_id, text"),
        ("agent/prompt", {"session_id": "a"}, "Missing required params: session_id, text"),
        ("agent/prompt", {"session_id": "a", "text": None}, "Missing required params: session_id, text"),
        ("agent/prompt", ["a", "hi"], "Missing required params: session_id, text"),
        ("agent/abort", None, "Missing required param: session_id"),
        ("auth/poll", {"interval": 5}, "Missing required params: device_code, interval"),
        ("model/set", {"session_id": "a", "thinking_level": "low"}, "Missing required params: session_id, model_id"),
        ("settings/save", {"settings": ["a"]}, "Missing required param: settings"),
        ("agent/prompt", {"session_id": "a", "text": 5}, "text: expected a string, got a number"),
        ("session/start", [], "params must be an object"),
        ("session/start", {"model": {}}, "model must have a non-empty id string"),
        ("session/start", {"model": {"id": ""}}, "model must have a non-empty id string"),
        ("session/start", {"model": "x"}, "model must have a non-empty id string"),
        ("session/start", {"features": 5}, "features must be an object"),
        ("session/start", {"tools": "shell"}, "tools: expected a list, got a string"),
        ("opal/config/set", {"session_id": "a", "tools": "shell"}, "tools: expected a list, got a string"),
    ],
)
def test_invalid_params_are_explained(method: str, params: Any, message: str) -> None:
    assert refused(METHODS[method], params) == (message, None)


@pytest.mark.parametrize(("declared", "more"), [(SessionStart, {}), (ConfigSet, {"session_id": "a"})])
def test_bad_features_are_reported(declared: type[Method], more: dict[str, Any]) -> None:
    unknown = refused(declared, {**more, "features": {"zeal": True, "art": True, "debug": True}})
    assert unknown == ("Unknown feature keys", "unknown features: art, zeal")
    no_boolean = refused(declared, {**more, "features": {"debug": "yes"}})
    assert no_boolean == ("Invalid feature value", "debug must be a boolean")


def test_params_are_optional_where_none_is_required() -> None:
    assert decode(METHODS["opal/ping"], None) == METHODS["opal/ping"]()
    assert decode(METHODS["models/list"], {"providers": ["x"]}) == METHODS["models/list"]()
    assert decode(SessionStart, {}) == SessionStart()


def test_a_model_may_be_named_by_its_id_alone_and_some_features_alone() -> None:
    start = decode(SessionStart, {"model": {"id": "m"}, "features": {"debug": True, "skills": None}})
    assert start.model is not None
    assert start.features is not None
    assert (start.model.id, start.model.provider) == ("m", None)
    assert (start.features.debug, start.features.skills) == (True, None)


def test_null_stops_a_distribution_and_nothing_leaves_it_alone() -> None:
    assert decode(ConfigSet, {"session_id": "a", "distribution": None}).distribution is None
    assert decode(ConfigSet, {"session_id": "a"}).distribution is not None


def test_unknown_params_are_ignored() -> None:
    assert decode(AgentPrompt, {"session_id": "a", "text": "hi", "mood": 1}) == AgentPrompt(session_id="a", text="hi")
