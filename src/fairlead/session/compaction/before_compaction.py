"""What extensions are shown of a compaction before it happens, and what becomes of their answer."""

from __future__ import annotations

from fairlead.core.events import CompactionReason, CompactionResult, FileLists
from fairlead.core.messages import CompactionSummaryMessage
from fairlead.core.runtime import Cancel
from fairlead.errors import CompactionCancelled
from fairlead.session.compaction.cut import Plan
from fairlead.session.context.tokens import estimate, estimate_all
from fairlead.session.history.entries import entries_in_context
from fairlead.session.history.log import Log
from fairlead.session.hooks import Cancelled, CompactionPlan, Summary


def shown(log: Log, planned: Plan, reason: CompactionReason, instructions: str | None, cancel: Cancel) -> CompactionPlan:
    """The plan of a compaction, as extensions see it."""
    path = log.path()
    seen = [entry for entry, _ in entries_in_context(path)]
    kept = next(place for place, entry in enumerate(path) if entry.id == planned.first_kept_id)
    stays = {entry.id for entry in path[kept:]}
    return CompactionPlan(
        reason=reason,
        instructions=instructions,
        to_summarise=log.plain(entry for entry in seen if entry.id not in stays),
        branch=log.plain(path),
        first_kept_entry_id=planned.first_kept_id,
        tokens_before=planned.tokens_before,
        cancel=cancel,
    )


def given_summary(log: Log, planned: Plan, answer: Summary | Cancelled | None) -> CompactionResult | CompactionCancelled | None:
    """A compaction with the summary that an extension wrote, if it wrote one; or that it forbade the compaction."""
    if not isinstance(answer, Summary):
        return None if answer is None else CompactionCancelled(answer.reason)
    kept = answer.first_kept_entry_id or planned.first_kept_id
    path = log.path()
    first = next((place for place, entry in enumerate(path) if entry.id == kept), len(path))
    stays = estimate_all(message for entry in path[first:] for message in log.read(entry))
    return CompactionResult(
        summary=answer.text,
        first_kept_entry_id=kept,
        tokens_before=planned.tokens_before,
        details=FileLists(planned.read_files, planned.modified_files) if answer.details is None else answer.details,
        estimated_tokens_after=stays + estimate(CompactionSummaryMessage(answer.text, 0, 0)),
    )
