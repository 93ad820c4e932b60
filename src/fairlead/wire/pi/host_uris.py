"""URIs that the host answers for, as the tools `read` and `write` see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import UNSET

from fairlead.core.runtime import Cancel
from fairlead.errors import BadCommand, ToolError
from fairlead.protocol.pi.frames import HostUriCancel, HostUriRequest
from fairlead.protocol.pi.omp_commands import HostUriResult, HostUriScheme
from fairlead.tools.uris import Document, beside, scheme_of
from fairlead.tools.workspace import Workspace
from fairlead.wire.pi import decode
from fairlead.wire.questions import HostLeft, Question, Questions, Withdrawn


class HostUris:
    """Implements `fairlead.tools.uris.Uris` for `workspace`, beside the URIs that it can read already."""

    def __init__(self, questions: Questions, workspace: Workspace) -> None:
        workspace.uris = beside(self, workspace.uris)
        self._questions = questions
        self._schemes: dict[str, HostUriScheme] = {}

    def replace(self, schemes: Sequence[HostUriScheme]) -> list[str]:
        """Put other schemes in the place of those there are; returns their names."""
        self._schemes = {each.scheme.strip().lower(): each for each in schemes}
        return list(self._schemes)

    def has(self, path: str) -> bool:
        return scheme_of(path) in self._schemes

    async def read(self, uri: str, cancel: Cancel) -> Document:
        answer = await self._ask("read", uri, None, cancel)
        if answer.content is None:
            raise _malformed("read", uri, "content: required, but missing")
        details: dict[str, Any] = {"contentType": answer.content_type or "text/plain"}
        immutable = self._scheme(uri).immutable if answer.immutable is None else answer.immutable
        if immutable:
            details["immutable"] = True
        return Document(answer.content, answer.notes or [], details)

    async def write(self, uri: str, content: str, cancel: Cancel) -> list[str]:
        scheme = self._scheme(uri)
        if not scheme.writable:
            raise ToolError(f"{uri} cannot be written: its host offers {scheme_of(uri)}:// for reading only.")
        answer = await self._ask("write", uri, content, cancel)
        return answer.notes or []

    def _scheme(self, uri: str) -> HostUriScheme:
        # Absent if the host took it back during a call: then it promises nothing any more.
        return self._schemes.get(scheme_of(uri)) or HostUriScheme(scheme=scheme_of(uri))

    async def _ask(self, operation: Literal["read", "write"], uri: str, content: str | None, cancel: Cancel) -> HostUriResult:
        """The host's answer. Raises ToolError if that is a failure, or cannot be understood."""
        question = Question(
            ask=lambda id: HostUriRequest(id, operation, uri, UNSET if content is None else content),
            withdraw=HostUriCancel,
            answered_by="host_uri_result",
        )
        try:
            answer = decode.decoded(HostUriResult, (await self._questions.ask(question, cancel)).body)
        except Withdrawn:
            raise ToolError(f"Host URI {operation} for {uri} was aborted") from None
        except HostLeft:
            raise ToolError("RPC client disconnected before host URI request completed") from None
        except BadCommand as error:
            raise _malformed(operation, uri, str(error)) from None
        if answer.is_error:
            raise ToolError(answer.error or answer.content or f"Host URI {operation} failed for {uri}")
        return answer


def _malformed(operation: str, uri: str, problem: str) -> ToolError:
    return ToolError(f"The host returned a malformed result for the {operation} of {uri}: {problem}")
