"""`fairlead schema`: print a protocol as JSON Schema or as TypeScript types."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from fairlead.cli.console import say
from fairlead.cli.flags import UsageError
from fairlead.errors import ConfigError
from fairlead.wire.dialects import Dialect, Program, chosen_dialect


def schema(words: Sequence[str], program: Program) -> int:
    """Print the protocol of a dialect as JSON Schema or TypeScript. Raises UsageError."""
    dialect, typescript = _schema_options(words)
    try:
        chosen = chosen_dialect(dialect, os.environ, program)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    text = types_text(chosen) if typescript else schema_text(chosen)
    say(text.removesuffix("\n"))
    return 0


def schema_text(dialect: Dialect) -> str:
    """Return the JSON Schema of a dialect."""
    return json.dumps(dialect.load().schema(dialect.name), indent=2, ensure_ascii=False) + "\n"


def types_text(dialect: Dialect) -> str:
    """Return the TypeScript types of a dialect."""
    return dialect.load().types(dialect.name, f"The protocol of {dialect.name}, as fairlead speaks it")


def _schema_options(words: Sequence[str]) -> tuple[str | None, bool]:
    dialect, typescript = None, False
    left = list(reversed(words))
    while left:
        word, has_value, value = left.pop().partition("=")
        if word == "--typescript" and not has_value:
            typescript = True
        elif word == "--dialect" and (has_value or left):
            dialect = value if has_value else left.pop()
        else:
            raise UsageError("usage: fairlead schema [--dialect NAME] [--typescript]")
    return dialect, typescript
