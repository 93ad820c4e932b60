"""The tables that fairlead keeps beside those of DBOS, in the same database.

DBOS holds the queue: which worker has claimed a job, in which order jobs start, and how many of a key may run. These tables hold
what it does not: what a job is, how far it came, its events, and the leases of workers.
"""

from __future__ import annotations

#: The version of the tables below and of those of sessions in the same database. It grows when an older fairlead could no longer
#: use them.
TABLES_VERSION = 1
#: The version of the tables of DBOS, as the release that fairlead needs creates them.
DBOS_VERSION = 123

#: `{serial}` and `{real}` differ between the databases.
TABLES = (
    """CREATE TABLE IF NOT EXISTS fairlead_jobs (
        seq {serial},
        id TEXT NOT NULL UNIQUE,
        session TEXT NOT NULL,
        task TEXT NOT NULL,
        key TEXT,
        status TEXT NOT NULL,
        generation BIGINT NOT NULL,
        epoch BIGINT NOT NULL,
        attempts BIGINT NOT NULL,
        deaths BIGINT NOT NULL,
        worker TEXT,
        answer TEXT,
        error TEXT,
        turns BIGINT NOT NULL,
        tokens BIGINT NOT NULL,
        cost {real} NOT NULL,
        cost_before {real} NOT NULL DEFAULT 0,
        seconds {real} NOT NULL,
        snapshot TEXT,
        patch TEXT,
        prompts_before BIGINT,
        lease BIGINT,
        submitted_at {real} NOT NULL,
        started_at {real},
        ended_at {real}
    )""",
    "CREATE INDEX IF NOT EXISTS fairlead_jobs_worker ON fairlead_jobs (worker, status)",
    "CREATE INDEX IF NOT EXISTS fairlead_jobs_session ON fairlead_jobs (session, seq)",
    "CREATE INDEX IF NOT EXISTS fairlead_jobs_waiting ON fairlead_jobs (session) WHERE status = 'waiting'",
    "CREATE INDEX IF NOT EXISTS fairlead_jobs_ended ON fairlead_jobs (ended_at)",
    """CREATE TABLE IF NOT EXISTS fairlead_job_events (
        job TEXT NOT NULL,
        number BIGINT NOT NULL,
        data TEXT NOT NULL,
        PRIMARY KEY (job, number)
    )""",
    """CREATE TABLE IF NOT EXISTS fairlead_workers (
        id TEXT PRIMARY KEY,
        host TEXT NOT NULL,
        pid BIGINT NOT NULL,
        process TEXT NOT NULL,
        sessions BIGINT NOT NULL,
        expires_at {real} NOT NULL
    )""",
    "CREATE TABLE IF NOT EXISTS fairlead_fleet (id TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS fairlead_schema (version BIGINT NOT NULL)",
)

#: The columns of `fairlead_jobs` that a `JobRecord` has, in its order.
JOB_COLUMNS = (
    "seq, id, session, task, key, status, generation, epoch, attempts, deaths, worker, answer, error, turns, tokens, cost,"
    " cost_before, seconds, snapshot, prompts_before, lease, submitted_at, started_at, ended_at"
)

#: The id of the workflow of a job in DBOS, as `JobRecord.workflow` has it, in SQL.
WORKFLOW_OF_JOB = "CASE WHEN generation = 1 THEN id ELSE id || '~' || CAST(generation AS TEXT) END"
