"""Which tests of the recipes run over adapted aiozk clients, and which cannot, and why.

    AIOLEAD_CLIENT=aiozk pytest tests/recipes

runs those that get their clients from `support.recipes`, on asyncio and the embedded server. That
is `AIOLEAD_CLIENT=aiozk pytest tests/recipes`; `make test` leaves some files
out, whose point is not the client.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from . import recipes
from .selection import reaches_real_server

IN_MEMORY = "holds back, or counts, the bytes of a client in memory, which no adapted one is"

SHARED = "its session is shared: a znode at a fixed path that no create of ours explains is aiozk's"

DIFFERENT = {
    "test_counts": IN_MEMORY,
    "test_barriers::test_ready_stays_until_the_znode_is_gone_in_memory": IN_MEMORY,
    "test_barriers::test_member_that_gives_up_unaware_of_its_round_leaves_no_ready": IN_MEMORY,
    "test_campaign::test_campaigns_of_one_election_object_contend_with_each_other": IN_MEMORY,
    "test_cancellation::test_cancelled_while_the_create_is_unanswered": IN_MEMORY,
    "test_cancellation::test_cancelled_while_the_delete_is_unanswered": IN_MEMORY,
    "test_config::test_what_is_published_while_it_is_read": IN_MEMORY,
    "test_group::test_each_change_costs_the_same_in_a_group_of_any_size": IN_MEMORY,
    "test_group::test_what_has_happened_without_a_link": IN_MEMORY,
    "test_leaders_n::test_a_departure_wakes_as_many_as_may_lead_at_most": IN_MEMORY,
    "test_observe::test_observers_are_not_disturbed_by_who_joins_and_leaves_behind": IN_MEMORY,
    "test_persistent_node::test_a_create_that_is_applied_long_after_it_was_given_up": SHARED,
    "test_persistent_node::test_left_while_there_is_no_link": IN_MEMORY,
    "test_semaphore::test_alone_it_takes_one_round_trip": IN_MEMORY,
    "test_tree_cache::test_an_overflow_is_a_gap_like_any_other": IN_MEMORY,
    "test_tree_cache::test_what_is_created_below_a_znode_that_is_being_read": IN_MEMORY,
    "test_values_faults::test_what_became_of_a_write": IN_MEMORY,
}
"""The tests, or whole modules, that say nothing about an adapted client, and the reason."""


def choose(items: list[pytest.Item]) -> list[pytest.Item]:
    """Leaves the tests that run, marks those that cannot, and gives the others."""
    others = [item for item in items if not _is_meant(item)]
    items[:] = [item for item in items if _is_meant(item)]
    for item in items:
        reason = DIFFERENT.get(_name(item)) or DIFFERENT.get(item.path.stem)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
    return others


def _is_meant(item: Any) -> bool:
    """Whether the test's clients come from where they can be adapted, on asyncio."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    loop, options = params.get("anyio_backend", ("asyncio", {}))
    if loop != "asyncio" or "loop_factory" in options or reaches_real_server(item):
        return False  # it has chosen for itself where it runs
    openers = {recipes.connect, recipes.in_memory, recipes.Wire}
    module = {value for value in vars(item.module).values() if inspect.isroutine(value)}
    module |= {value for value in vars(item.module).values() if inspect.isclass(value)}
    return inspect.iscoroutinefunction(item.obj) and not openers.isdisjoint(module)


def _name(item: Any) -> str:
    return f"{item.path.stem}::{item.originalname}"
