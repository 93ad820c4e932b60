"""Durable jobs: prompts that run once, on one machine or on many, whatever dies on the way.

    Jobs            submit jobs, follow them, collect results, cancel and retry
    Job, JobLimits  a prompt, where it works, and what it may use
    JobResult       what is known of a job
    JobEvent        something that happened to a job
    KeyLimits       what the jobs of a provider key may do together
    Workspace       the place that a job works in; implement it for sandboxes that live elsewhere

    async with Jobs("sqlite:///jobs.db") as jobs:
        await jobs.submit(Job(id="fix-1", prompt="Fix the failing test.", repo=".", commit="HEAD"))
        async for result in jobs.results(["fix-1"]):
            print(result.status, result.answer)

`fairlead worker --db sqlite:///jobs.db --sessions 8` runs them. It needs the extra `jobs`.
"""

from __future__ import annotations

from fairlead.jobs.dbos_queue import KeyLimits
from fairlead.jobs.jobs_client import Jobs
from fairlead.jobs.task import Job
from fairlead.jobs.workspaces.job_workspace import Placement, Workspace
from fairlead.protocol.http.fleet import JobEvent, JobLimits, JobResult

__all__ = ["Job", "JobEvent", "JobLimits", "JobResult", "Jobs", "KeyLimits", "Placement", "Workspace"]
