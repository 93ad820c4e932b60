"""Operations of the HTTP interface, a coroutine method for each.

`make generate` writes this module from the declarations. Do not edit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType

from fairlead.client.generated import Caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.core.events import CompactionResult
    from fairlead.core.messages import ImageContent
    from fairlead.core.model import ThinkingLevel
    from fairlead.protocol.http.fleet import Job, JobLimits, JobResult
    from fairlead.protocol.http.http_objects import (
        AcceptedPrompt,
        Approval,
        BeforeCursor,
        ClearedQueue,
        Completions,
        Forked,
        Health,
        LoginCode,
        ModelList,
        Moved,
        RequestId,
        SessionList,
        SessionName,
        SessionState,
        Snapshot,
        Tree,
    )


class HttpMethods(Caller):
    """Each method sends a request and returns its result.

    It raises CommandRefused if the server refuses the request, NoAnswer if `timeout` seconds pass, and AgentGone if the server
    cannot be reached. `timeout` is by default that of the client; None means no limit.
    """

    async def create_session(
        self,
        *,
        cwd: str | None = None,
        model: str | None = None,
        thinking: ThinkingLevel | None = None,
        approval: Approval | None = None,
        name: SessionName | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> SessionState:
        """Begin a session."""
        return await self._call("create_session", timeout, cwd=cwd, model=model, thinking=thinking, approval=approval, name=name)

    async def list_sessions(
        self, *, cwd: str | None = None, cursor: str | None = None, timeout: float | UnsetType | None = UNSET
    ) -> SessionList:
        """List the sessions, the last changed first."""
        return await self._call("list_sessions", timeout, cwd=cwd, cursor=cursor)

    async def get_session(
        self, session_id: str, *, messages: int | None = None, timeout: float | UnsetType | None = UNSET
    ) -> Snapshot:
        """Get a snapshot of a session. The events after `lastEvent` continue the snapshot without a gap."""
        return await self._call("get_session", timeout, session_id=session_id, messages=messages)

    async def change_session(
        self,
        session_id: str,
        *,
        model: str | None = None,
        thinking: ThinkingLevel | None = None,
        name: SessionName | None = None,
        approval: Approval | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> SessionState:
        """Change the model, the thinking level, the name or the approval mode."""
        return await self._call(
            "change_session", timeout, session_id=session_id, model=model, thinking=thinking, name=name, approval=approval
        )

    async def delete_session(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> None:
        """Stop a session, close it and delete its file."""
        await self._call("delete_session", timeout, session_id=session_id)

    async def prompt(
        self,
        session_id: str,
        text: str,
        *,
        id: RequestId | None = None,
        images: Sequence[ImageContent] = (),
        behavior: Literal["steer", "followUp"] | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> AcceptedPrompt:
        """Send a message of the user. It starts a run. The answer comes at once. `prompt_result` reports the end of
        the work."""
        return await self._call("prompt", timeout, session_id=session_id, text=text, id=id, images=images, behavior=behavior)

    async def steer(
        self,
        session_id: str,
        text: str,
        *,
        id: RequestId | None = None,
        images: Sequence[ImageContent] = (),
        timeout: float | UnsetType | None = UNSET,
    ) -> AcceptedPrompt:
        """Queue a message for the next turn of the run."""
        return await self._call("steer", timeout, session_id=session_id, text=text, id=id, images=images)

    async def follow_up(
        self,
        session_id: str,
        text: str,
        *,
        id: RequestId | None = None,
        images: Sequence[ImageContent] = (),
        timeout: float | UnsetType | None = UNSET,
    ) -> AcceptedPrompt:
        """Queue a message for when the run would stop."""
        return await self._call("follow_up", timeout, session_id=session_id, text=text, id=id, images=images)

    async def abort(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> SessionState:
        """Stop the run or the compaction, and wait until the session has settled."""
        return await self._call("abort", timeout, session_id=session_id)

    async def resume(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> SessionState:
        """Continue the last run if it was interrupted. No message is repeated. The response comes at once, and the
        events report the run. In a session whose prompts workers run, the last job is retried if it failed or is
        parked."""
        return await self._call("resume", timeout, session_id=session_id)

    async def compact(
        self, session_id: str, *, instructions: str | None = None, timeout: float | UnsetType | None = UNSET
    ) -> CompactionResult:
        """Replace older messages with a summary. The response comes when the summary is written."""
        return await self._call("compact", timeout, session_id=session_id, instructions=instructions)

    async def get_tree(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> Tree:
        """Get the messages of all branches. `move` continues from any of them, and `fork` begins a session there."""
        return await self._call("get_tree", timeout, session_id=session_id)

    async def fork(
        self,
        session_id: str,
        *,
        entry_id: str | None = None,
        position: Literal["before", "at"] = "at",
        timeout: float | UnsetType | None = UNSET,
    ) -> Forked:
        """Begin a session with what this one has up to an entry."""
        return await self._call("fork", timeout, session_id=session_id, entry_id=entry_id, position=position)

    async def move(
        self,
        session_id: str,
        entry_id: str | None,
        *,
        summarize: bool = False,
        instructions: str | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> Moved:
        """Continue from another entry of the same session. The run is stopped first. All clients get
        `branch_changed`. The new place is saved with the next message."""
        return await self._call(
            "move", timeout, session_id=session_id, entry_id=entry_id, summarize=summarize, instructions=instructions
        )

    async def clear_queue(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> ClearedQueue:
        """Remove the messages that wait for the run, and return their texts. `prompt_result` reports them as
        aborted."""
        return await self._call("clear_queue", timeout, session_id=session_id)

    async def complete(self, session_id: str, text: BeforeCursor, *, timeout: float | UnsetType | None = UNSET) -> Completions:
        """Suggest how the text before the cursor continues. Files of the working directory after `@`, slash commands
        after `/`, and arguments of slash commands."""
        return await self._call("complete", timeout, session_id=session_id, text=text)

    async def answer(
        self,
        session_id: str,
        question_id: str,
        *,
        value: str | None = None,
        confirmed: bool | None = None,
        decision: Literal["allow", "deny"] | None = None,
        for_session: bool = False,
        arguments: dict[str, Any] | None = None,
        rule: str | None = None,
        everywhere: bool = False,
        reason: str = "",
        cancelled: bool = False,
        timeout: float | UnsetType | None = UNSET,
    ) -> None:
        """Answer a question. The first answer of any client counts."""
        await self._call(
            "answer",
            timeout,
            session_id=session_id,
            question_id=question_id,
            value=value,
            confirmed=confirmed,
            decision=decision,
            for_session=for_session,
            arguments=arguments,
            rule=rule,
            everywhere=everywhere,
            reason=reason,
            cancelled=cancelled,
        )

    async def list_models(self, *, timeout: float | UnsetType | None = UNSET) -> ModelList:
        """List the models that can be used."""
        return await self._call("list_models", timeout)

    async def create_login_code(self, *, timeout: float | UnsetType | None = UNSET) -> LoginCode:
        """Make a code with which a browser can log in once."""
        return await self._call("create_login_code", timeout)

    async def healthz(self, *, timeout: float | UnsetType | None = UNSET) -> Health:
        """Whether the process works."""
        return await self._call("healthz", timeout)

    async def readyz(self, *, timeout: float | UnsetType | None = UNSET) -> Health:
        """Whether the server accepts work. The status is 503 while it shuts down."""
        return await self._call("readyz", timeout)

    async def list_jobs(self, *, timeout: float | UnsetType | None = UNSET) -> list[JobResult]:
        """List all jobs, in the order of submission. Only with `--db`."""
        return await self._call("list_jobs", timeout)

    async def submit_jobs(self, jobs: Job | Sequence[Job], *, timeout: float | UnsetType | None = UNSET) -> list[JobResult]:
        """Submit a job or a list of jobs. Only with `--db`."""
        return await self._call("submit_jobs", timeout, jobs=jobs)

    async def get_job(self, job_id: str, *, timeout: float | UnsetType | None = UNSET) -> JobResult:
        """Get what is known of a job. Only with `--db`."""
        return await self._call("get_job", timeout, job_id=job_id)

    async def job_patch(self, job_id: str, *, timeout: float | UnsetType | None = UNSET) -> str:
        """Get what a job has changed in its repository. Only with `--db`."""
        return await self._call("job_patch", timeout, job_id=job_id)

    async def cancel_job(self, job_id: str, *, timeout: float | UnsetType | None = UNSET) -> JobResult:
        """Cancel a job. Only with `--db`."""
        return await self._call("cancel_job", timeout, job_id=job_id)

    async def retry_job(self, job_id: str, *, timeout: float | UnsetType | None = UNSET) -> JobResult:
        """Queue a job again that has ended without success. Only with `--db`."""
        return await self._call("retry_job", timeout, job_id=job_id)

    async def session_jobs(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> list[JobResult]:
        """List the jobs of a session. Only with `--db`."""
        return await self._call("session_jobs", timeout, session_id=session_id)

    async def prompt_session(
        self,
        session_id: str,
        prompt: str,
        *,
        id: RequestId | None = None,
        workdir: str | None = None,
        repo: str | None = None,
        commit: str | None = None,
        model: str | None = None,
        limits: JobLimits | None = None,
        key: str | None = None,
        priority: int | None = None,
        container: str | None = None,
        labels: dict[str, str] | None = None,
        timeout: float | UnsetType | None = UNSET,
    ) -> JobResult:
        """Send a prompt to a session. Only with `--db`."""
        return await self._call(
            "prompt_session",
            timeout,
            session_id=session_id,
            prompt=prompt,
            id=id,
            workdir=workdir,
            repo=repo,
            commit=commit,
            model=model,
            limits=limits,
            key=key,
            priority=priority,
            container=container,
            labels=labels,
        )

    async def session_transcript(self, session_id: str, *, timeout: float | UnsetType | None = UNSET) -> str:
        """Get a session as the lines of a session file. Only with `--db`."""
        return await self._call("session_transcript", timeout, session_id=session_id)
