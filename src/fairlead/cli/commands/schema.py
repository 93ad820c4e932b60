"""`fairlead schema`: print the protocol of a dialect as JSON Schema or TypeScript."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from fairlead.cli.console import say
from fairlead.cli.flags import UsageError
from fairlead.errors import ConfigError
from fairlead.wire.dialects import Dialect, chosen_dialect

USAGE = "usage: fairlead schema [--dialect NAME] [--typescript]"


def schema(words: Sequence[str]) -> int:
    """Print the schema or the types. Raises UsageError."""
    dialect, typescript = _read(words)
    try:
        chosen = chosen_dialect(dialect, os.environ, sys.argv[0])
    except ConfigError as error:
        raise UsageError(str(error)) from None
    text = types_text(chosen) if typescript else schema_text(chosen)
    say(text.removesuffix("\n"))
    return 0


def schema_text(dialect: Dialect) -> str:
    """The JSON Schema of a dialect."""
    return json.dumps(dialect.load().schema(dialect.name), indent=2, ensure_ascii=False) + "\n"


def types_text(dialect: Dialect) -> str:
    """The TypeScript types of a dialect."""
    return dialect.load().types(dialect.name, f"The protocol of {dialect.name}, as fairlead speaks it")


def _read(words: Sequence[str]) -> tuple[str | None, bool]:
    dialect, typescript = None, False
    left = list(reversed(words))
    while left:
        word, has_value, value = left.pop().partition("=")
        if word == "--typescript" and not has_value:
            typescript = True
        elif word == "--dialect" and (has_value or left):
            dialect = value if has_value else left.pop()
        else:
            raise UsageError(USAGE)
    return dialect, typescript
