"""Runs tests that are coroutine functions, each in its own event loop, and lets signals reach what tests start."""

from __future__ import annotations

import asyncio
import functools
import inspect
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.support.once_more import OnceMore

# How long an example takes depends on what else the machine does.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--once-more", type=int, default=0, metavar="N", help="run up to N failed tests once more, alone")


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl+C reach the programs that tests start, also if the tests run in the background, where a shell ignores it."""
    if config.option.once_more and not hasattr(config, "workerinput"):
        config.pluginmanager.register(OnceMore(config.option.once_more))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import modules without system tests if only those run: it would take longer than some of the tests."""
    if config.option.markexpr != "system" or collection_path.suffix != ".py":
        return None
    return "mark.system" not in collection_path.read_text("utf-8") or None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Replace a coroutine function by a plain one, which pytest then calls like any other test.

    Without the replacement pytest fails such a test and Hypothesis refuses it. So no test passes without being awaited.
    """
    test = pyfuncitem.obj
    property_test = getattr(test, "hypothesis", None)
    if property_test is not None:
        if inspect.iscoroutinefunction(property_test.inner_test):
            property_test.inner_test = _in_event_loop(property_test.inner_test)  # a new loop for each example
    elif inspect.iscoroutinefunction(test):
        pyfuncitem.obj = _in_event_loop(test)


def _in_event_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        return asyncio.run(test(*args, **kwargs))

    return run
