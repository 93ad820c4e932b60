"""The conformance suite for session stores: what every `fairlead.stores.SessionStore` has to do.

    from fairlead.testing import check_store

    def test_my_store(tmp_path):
        check_store(lambda: MyStore(tmp_path / "sessions"))

`check_store` runs all checks. `STORE_CHECKS` are the checks themselves, to be run one by one:

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_my_store(check, tmp_path):
        check_store(lambda: MyStore(tmp_path / "sessions"), check)

Each check calls the function once for every process that it plays, and all of the stores must share their sessions. The checks
use new ids, so they may run on a store that has other sessions.
"""

from __future__ import annotations

import asyncio

from fairlead.testing.stores import appends, leases, sessions
from fairlead.testing.stores.support import Check, MakeStore

#: All checks, in the order in which it is best to make them pass.
STORE_CHECKS: tuple[Check, ...] = (
    sessions.creates_and_reads_sessions,
    sessions.creates_a_session_with_entries,
    sessions.refuses_a_second_session_with_the_same_id,
    sessions.reads_from_a_cursor,
    sessions.knows_which_sessions_do_not_exist,
    sessions.lists_sessions_in_the_order_of_their_ids,
    sessions.lists_when_sessions_were_created_and_changed,
    sessions.forks_sessions,
    sessions.deletes_sessions_that_are_not_in_use,
    leases.lets_one_owner_write,
    leases.gives_an_expired_lease_to_the_next_owner,
    leases.refuses_an_expired_lease_that_no_other_owner_has_taken,
    leases.keeps_a_lease_that_is_renewed,
    sessions.gives_an_id_to_one_of_many_creators,
    leases.gives_a_lease_to_one_of_many_owners,
    leases.writes_nothing_of_an_owner_after_the_next_one_has_the_lease,
    appends.appends_all_or_nothing,
    appends.recognises_an_append_that_is_repeated,
    appends.keeps_the_order_of_appends,
    appends.keeps_every_byte,
    appends.keeps_thousands_of_entries,
    appends.appends_to_several_sessions_at_once,
    appends.survives_a_cancelled_append,
    sessions.refuses_work_after_it_was_closed,
    sessions.finishes_what_was_begun_before_it_is_closed,
    sessions.keeps_sessions_when_it_is_opened_again,
    sessions.works_on_another_event_loop,
)


def check_store(make: MakeStore, *checks: Check) -> None:
    """Run the checks, or all of them, on an event loop each.

    Raises AssertionError, or what the store raised, if the store fails one. A note of the error names the check.
    """
    for check in checks or STORE_CHECKS:
        try:
            asyncio.run(check(make))
        except Exception as error:
            error.add_note(f"The store failed the check {check.__name__!r} of fairlead.testing.STORE_CHECKS.")
            raise
