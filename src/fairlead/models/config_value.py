"""What a key or a header in auth.json or models.json stands for.

pi 0.87 and later write environment variables as `$NAME`; pi 0.73, omp and xcsh write the bare name. Both are understood. They
conflict where a variable has the same name as a literal key: then the variable is used, as in pi 0.73.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from re import Pattern


class ConfigValue(Struct, frozen=True):
    """A value as it is written.

    `!command` stands for what the command prints, and the name of an environment variable that is set for its value. In any
    other text `$NAME` and `${NAME}` stand for environment variables, `$$` for a dollar sign and `$!` for an exclamation mark.
    """

    text: str
    #: Variables that the entry in auth.json sets for itself.
    own_env: Mapping[str, Any] = {}
    #: It stands for itself.
    is_literal: bool = False

    @property
    def command(self) -> str | None:
        """The command whose output it stands for, if it is one."""
        return self.text[1:].strip() if self.text.startswith("!") and not self.is_literal else None

    @property
    def looks_like_variable(self) -> bool:
        """Whether a user has probably written it as the name of a variable."""
        return not self.is_literal and "_" in self.text and self.text.isupper() and self.text.isidentifier()

    @property
    def variables(self) -> list[str]:
        """The names of the variables that it needs."""
        if self.looks_like_variable:
            return [self.text]
        if self.is_literal or "$" not in self.text or self.command is not None:
            return []
        names = (braced or plain for _, braced, plain in _reference().findall(self.text))
        return list(dict.fromkeys(filter(None, names)))

    def missing(self, env: Mapping[str, str]) -> list[str]:
        """Return the names of the variables that it needs and that are not set."""
        return [name for name in self.variables if name != self.text and not self._variable(name, env)]

    def resolved(self, env: Mapping[str, str]) -> str:
        """Return what it stands for, if it is not a command and no variable is missing."""
        if self.is_literal:
            return self.text
        if "$" not in self.text:
            return self._variable(self.text, env) or self.text
        return _reference().sub(lambda found: found[1] or self._variable(found[2] or found[3], env), self.text)

    def _variable(self, name: str, env: Mapping[str, str]) -> str:
        own = self.own_env.get(name)
        return own if isinstance(own, str) and own else env.get(name, "")


def escaped(text: str) -> str:
    """Return the value to write for a text that stands for itself."""
    doubled = text.replace("$", "$$")
    return f"$!{doubled[1:]}" if doubled.startswith("!") else doubled


def _reference() -> Pattern[str]:
    """Return the pattern of what a dollar sign begins: an escape, or one of the two ways to name a variable."""
    import re

    return re.compile(r"\$(?:([$!])|\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
