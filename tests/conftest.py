"""Runs tests that are coroutine functions, each in an event loop of its own."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest


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
