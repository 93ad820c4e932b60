"""Fixtures of the tests of Opal: the command, as the tests of `cli` have it."""

from __future__ import annotations

from tests.cli.conftest import fairlead, scripted

__all__ = ["fairlead", "scripted"]
