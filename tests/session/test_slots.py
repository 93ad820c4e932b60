"""How many may work at once."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.core.runtime import CancelToken
from fairlead.session.subagents.agent_kinds import Slot, Slots


async def others_had_their_turn() -> None:
    """Let everything run that can run without us."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_waiting_tasks_get_slots_in_order() -> None:
    slots, order = Slots(1), list[int]()

    async def work(number: int) -> None:
        assert await slots.take(CancelToken())
        order.append(number)
        await asyncio.sleep(0)
        slots.give_back()

    await asyncio.gather(*map(work, range(5)))
    assert order == [0, 1, 2, 3, 4]


async def test_a_cancelled_task_stops_waiting_and_takes_no_slot() -> None:
    slots, cancel = Slots(1), CancelToken()
    assert await slots.take(CancelToken())
    waiting = asyncio.create_task(slots.take(cancel))
    await others_had_their_turn()
    cancel.fire()
    assert await waiting is False
    assert await slots.take(cancel) is False
    slots.give_back()
    assert await slots.take(CancelToken())


async def test_a_slot_given_to_a_cancelled_task_passes_to_the_next() -> None:
    slots = Slots(1)
    assert await slots.take(CancelToken())
    first, second = (asyncio.create_task(slots.take(CancelToken())) for _ in range(2))
    await others_had_their_turn()
    slots.give_back()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await second


async def test_a_slot_is_others_while_it_is_lent_and_its_own_again_afterwards() -> None:
    slots, cancel = Slots(1), CancelToken()
    mine, other = Slot(slots), Slot(slots)
    assert await mine.take(cancel)
    async with mine.lent(cancel):
        assert await other.take(cancel)
        other.give_back()
    waiting = asyncio.create_task(other.take(cancel))
    await others_had_their_turn()
    assert not waiting.done()
    mine.give_back()
    assert await waiting


async def test_a_slot_that_is_lent_again_while_it_is_wanted_back_is_others_meanwhile() -> None:
    slots, cancel = Slots(1), CancelToken()
    mine, other = Slot(slots), Slot(slots)
    assert await mine.take(cancel)
    ends = [asyncio.Event(), asyncio.Event()]

    async def lend(end: asyncio.Event) -> None:
        async with mine.lent(cancel):
            await end.wait()

    first = asyncio.create_task(lend(ends[0]))
    await others_had_their_turn()
    assert await other.take(cancel)
    ends[0].set()
    second = asyncio.create_task(lend(ends[1]))
    await others_had_their_turn()
    # The first lending is over and waits for the slot; the second has begun.
    other.give_back()
    await first
    assert await other.take(cancel), "it is still lent"
    other.give_back()
    ends[1].set()
    await second
    mine.give_back()
    assert await other.take(cancel)


async def test_two_lendings_that_end_together_take_back_one_slot() -> None:
    slots, cancel = Slots(1), CancelToken()
    mine, other = Slot(slots), Slot(slots)
    assert await mine.take(cancel)
    ends = [asyncio.Event(), asyncio.Event()]

    async def lend(end: asyncio.Event) -> None:
        async with mine.lent(cancel):
            await end.wait()

    first = asyncio.create_task(lend(ends[0]))
    await others_had_their_turn()
    assert await other.take(cancel)
    ends[0].set()
    second = asyncio.create_task(lend(ends[1]))
    await others_had_their_turn()
    ends[1].set()
    await others_had_their_turn()
    other.give_back()
    await asyncio.gather(first, second)
    mine.give_back()
    assert await other.take(cancel), "no slot was lost"
