"""The jobs of a fleet as clients see them, and the operations of `fairlead serve --db` under `/fleet`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from fairlead.protocol.http.http_objects import RequestId
from fairlead.protocol.http.operations import Operation, Parameter

#: Priorities are between minus this and this. A higher one is started first.
MOST_PRIORITY = 500
JobStatus: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled", "parked"]
#: The statuses of jobs that have ended, which are the types of their last events too.
ENDED: tuple[JobStatus, ...] = ("done", "failed", "cancelled", "parked")

#: What it says about all of them.
_ONLY_WITH_DB = "Only with `--db`."


class JobLimits(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a job may use, over all of its attempts. None: no limit."""

    #: How many model calls.
    turns: Annotated[int, Meta(gt=0)] | None = None
    #: How many seconds it may run.
    seconds: Annotated[float, Meta(gt=0)] | None = None
    #: How many US dollars.
    cost: Annotated[float, Meta(gt=0)] | None = None
    #: How many tokens, of all kinds.
    tokens: Annotated[int, Meta(gt=0)] | None = None


class Job(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A prompt to run once, wherever a worker has room for it. Its fields are those of a line in a file of tasks.

    A field that is null counts as left out.
    """

    #: The name of the job. Submitting the same job again changes nothing.
    id: str
    prompt: str
    #: The directory to work in, which every worker must be able to reach.
    workdir: str | None = None
    #: A repository of git (a path or an address) and the commit to check out. Each job gets its own worktree.
    repo: str | None = None
    commit: str | None = None
    #: The model, as `--model` names it. None: the default of the worker.
    model: str | None = None
    limits: JobLimits | None = JobLimits()
    #: The provider key whose limits of concurrency and rate apply.
    key: str | None = None
    #: Jobs of the same key with a higher priority start first.
    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] | None = 0
    labels: Mapping[str, str] | None = {}
    #: The session that the prompt continues. Its prompts run one at a time, in the order in which they were submitted.
    #: None: its own session, with the id of the job.
    session: str | None = None
    #: The image of a container in which the job's commands run. None: they run beside the worker.
    container: str | None = None
    #: The directory that holds every place on a disk that the job names, with links resolved. A server with `--root` sets it.
    root: str | None = None


class JobResult(Struct, frozen=True, kw_only=True):
    """What is known of a job."""

    id: str
    status: JobStatus
    #: How many times a worker has started it, since it was submitted or retried.
    attempts: int
    #: What it has cost so far, in US dollars, and what else it used.
    cost: float
    #: The id of its session.
    session: str
    turns: int
    tokens: int
    seconds: float
    #: The last answer of the model; None if the job has not ended with one.
    answer: str | None
    #: Why it failed or was parked.
    error: str | None
    labels: Mapping[str, str]
    #: The commit with the files that the job left, if it works in a repository.
    snapshot: str | None

    @property
    def has_ended(self) -> bool:
        """Whether it is done, failed, cancelled or parked."""
        return self.status not in ("queued", "running")


class JobEvent(Struct, frozen=True):
    """Something that happened to a job. Its numbers start at 1 and have no gaps."""

    job: str
    number: int
    type: str
    #: The fields of the event, as JSON has them.
    data: dict[str, Any]


class SessionPrompt(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a prompt to a session. The first prompt of a session says where it works."""

    prompt: str
    #: Repeating a prompt with the same id returns the same job. It has the label `prompt` with the id.
    id: RequestId | None = None
    workdir: str | None = None
    repo: str | None = None
    commit: str | None = None
    model: str | None = None
    limits: JobLimits | None = None
    key: str | None = None
    priority: int | None = None
    container: str | None = None
    labels: dict[str, str] | None = None


_JOB, _SESSION = "/fleet/jobs/{id}", "/fleet/sessions/{id}"
_UNAVAILABLE = (503,)
_OF_ONE = (404, 503)


def _operation(name: str, method: Any, path: str, summary: str, **fields: Any) -> Operation:
    errors = _OF_ONE if "{id}" in path else _UNAVAILABLE
    return Operation(name=name, method=method, path=path, summary=summary, description=_ONLY_WITH_DB, errors=errors, **fields)


_AFTER = Parameter(name="after", type="integer", description="The number of the last event that the client has.")
_LAST = Parameter(name="Last-Event-ID", place="header", type="integer", description="As `after`; it comes first.")

#: The name of an operation is that of its handler in `fairlead.jobs.http_routes`.
FLEET_OPERATIONS: tuple[Operation, ...] = (
    _operation("list_jobs", "GET", "/fleet/jobs", "List all jobs, in the order of submission.", result=list[JobResult]),
    _operation(
        "submit_jobs", "POST", "/fleet/jobs", "Submit a job or a list of jobs.", body=Job | list[Job], result=list[JobResult]
    ),
    _operation("get_job", "GET", _JOB, "Get what is known of a job.", result=JobResult),
    _operation(
        "job_events",
        "GET",
        f"{_JOB}/events",
        "Follow the events of a job, as server-sent events.",
        parameters=(_AFTER, _LAST),
        content="text/event-stream",
    ),
    _operation("job_patch", "GET", f"{_JOB}/patch", "Get what a job has changed in its repository.", content="text/plain"),
    _operation("cancel_job", "POST", f"{_JOB}/cancel", "Cancel a job.", result=JobResult),
    _operation("retry_job", "POST", f"{_JOB}/retry", "Queue a job again that has ended without success.", result=JobResult),
    _operation("session_jobs", "GET", _SESSION, "List the jobs of a session.", result=list[JobResult]),
    _operation(
        "prompt_session", "POST", f"{_SESSION}/prompts", "Send a prompt to a session.", body=SessionPrompt, result=JobResult
    ),
    _operation(
        "session_transcript",
        "GET",
        f"{_SESSION}/transcript",
        "Get a session as the lines of a session file.",
        content="application/x-ndjson",
    ),
)
