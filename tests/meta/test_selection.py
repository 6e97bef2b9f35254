"""What `make test` selects sees the planted bugs."""

from __future__ import annotations

import pytest
from mutants.catalogue import MUTANTS
from mutants.promises import LOOPS_AND_SERVERS, function, is_named
from mutants.results import Results
from support.selection import LOOPS, SERVERS, promised


@pytest.fixture(scope="module")
def selected(request: pytest.FixtureRequest) -> list[str]:
    """The node ids that `make test` runs. Collecting all tests once more would take too long."""
    config = request.config
    if config.args != config.getini("testpaths") or config.option.keyword or config.option.markexpr:
        pytest.skip("only a run of all tests knows what is selected")
    return [item.nodeid for item in promised(request.session.items)]


def test_every_planted_bug_meets_its_tests_in_make_test(selected: list[str]) -> None:
    """`make test` runs, on some loop and server, a test that is known to see each bug."""
    unseen = [
        mutant.name
        for mutant in MUTANTS
        if mutant.tests and not any(is_named(node, mutant.tests) for node in selected)
    ]
    assert unseen == []


def test_every_planted_bug_is_caught_by_a_test_of_make_test(selected: list[str]) -> None:
    """By one that was seen to catch it; `python -m tests.mutants --promises --missing` hunts."""
    functions = {function(node) for node in selected}
    results = Results()

    def is_seen(name: str) -> bool:
        last = results.get(name, "promises")
        return function(results.witness(name)) in functions and (last is None or bool(last.caught))

    hunted = [m.name for m in MUTANTS if m.tests or results.get(m.name, "promises")]
    assert [name for name in hunted if not is_seen(name)] == []


def test_planted_bugs_know_the_event_loops_and_servers() -> None:
    unknown = {*LOOPS, *SERVERS} - set(LOOPS_AND_SERVERS)  # eager tasks need Python 3.12
    assert unknown == set()
