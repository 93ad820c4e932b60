"""`fairlead schema`: the protocol of a dialect, for programs and programming languages."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fairlead.cli.flags import UsageError
from fairlead.cli.speak import say
from fairlead.wire.pi.profile import PROFILES

OPAL = "opal"
DIALECTS = (*PROFILES, OPAL)
USAGE = "usage: fairlead schema [--dialect NAME] [--typescript]"


def schema(words: Sequence[str], dialect: str) -> int:
    """Print what the command line asks for; `dialect` is meant where it names none. Raises UsageError."""
    dialect, typescript = _read(words, dialect)
    text = types_text(dialect) if typescript else schema_text(dialect)
    say(text.removesuffix("\n"))
    return 0


def schema_text(dialect: str) -> str:
    """The JSON Schema of a dialect."""
    if dialect == OPAL:
        from fairlead.protocol.schema.opal import opal_schema

        document = opal_schema()
    else:
        from fairlead.wire.pi.schema import schema as family

        document = family(PROFILES[dialect])
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def types_text(dialect: str) -> str:
    """The TypeScript types of a dialect."""
    from fairlead.protocol.schema import typescript

    title = f"The protocol of {dialect}, as fairlead speaks it"
    if dialect == OPAL:
        return typescript.opal_types(title)
    from fairlead.wire.pi.schema import lines

    return typescript.family_types(title, lines(PROFILES[dialect]))


def _read(words: Sequence[str], dialect: str) -> tuple[str, bool]:
    typescript = False
    left = list(reversed(words))
    while left:
        word, has_value, value = left.pop().partition("=")
        if word == "--typescript" and not has_value:
            typescript = True
        elif word == "--dialect" and (has_value or left):
            dialect = value if has_value else left.pop()
        else:
            raise UsageError(USAGE)
    if dialect not in DIALECTS:
        raise UsageError(f"Unknown dialect {dialect!r}. The dialects are: {', '.join(DIALECTS)}")
    return dialect, typescript
