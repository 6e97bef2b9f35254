"""`make test` rotates and leaves out what it says, and `make test-all` meets every combination."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants.catalogue import MUTANTS
from mutants.promises import LOOPS_AND_SERVERS, function, is_named
from mutants.results import Results
from support.loops import BACKENDS
from support.selection import (
    BOTH_LOOPS,
    ELSEWHERE,
    KEPT,
    LOOPS,
    REAL_TIER,
    SAMPLED,
    SERVERS,
    promised,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def selected(request: pytest.FixtureRequest) -> list[str]:
    """The node ids that `make test` runs. Collecting all tests once more would take too long."""
    config = request.config
    if config.args != config.getini("testpaths") or config.option.keyword or config.option.markexpr:
        pytest.skip("only a run of all tests knows what is selected")
    return [item.nodeid for item in promised(request.session.items)]


def test_the_tables_name_what_exists() -> None:
    names = [*BOTH_LOOPS, *REAL_TIER, *ELSEWHERE, *KEPT, *SAMPLED]
    gone = []
    for name in names:
        file, _, test = name.partition("::")
        path = ROOT / file
        exists = path.exists() or any(path.parent.glob(f"{path.name}*"))
        if not exists or test.partition("[")[0] not in (path.read_text() if test else ""):
            gone.append(name)
    assert gone == []
    assert all(any(each.startswith(other) for other in (*ELSEWHERE, *SAMPLED)) for each in KEPT)


# --- rotation ----------------------------------------------------------------------------------


def test_make_test_meets_every_loop_and_every_kind_of_server(selected: list[str]) -> None:
    recipes = [each for each in selected if each.startswith("tests/recipes/")]
    for name in (*LOOPS, *SERVERS):
        assert sum(name in each.partition("[")[2][:-1].split("-") for each in recipes) > 20, name


def test_locks_meet_asyncio_and_trio(selected: list[str]) -> None:
    test = "tests/recipes/locks/test_lock.py::"
    found = [each.partition("[")[2] for each in selected if each.startswith(test)]
    on_both = [[part for part in each[:-1].split("-") if part in LOOPS] for each in found]
    assert {tuple(each) for each in on_both if each} == {("asyncio",), ("trio",)}


PLANTED = """
    import pytest
    from support.selection import SERVERS, add_options, configure
    from support.loops import BACKENDS

    def pytest_addoption(parser):
        add_options(parser)

    def pytest_configure(config):
        configure(config)

    @pytest.fixture(params=BACKENDS)
    def anyio_backend(request):
        return request.param

    @pytest.fixture(params=SERVERS)
    def server(request):
        return request.param
"""
SUITE = """
    import pytest

    @pytest.mark.parametrize("number", range(20))
    async def test_a(anyio_backend, server, number):
        pass

    @pytest.mark.parametrize("server", ["embedded"], indirect=True)
    async def test_b(anyio_backend, server):
        pass

    def test_c():
        pass
"""
COMBINATIONS = len(BACKENDS) * len(SERVERS)


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'tests'}")
    pytester.makeconftest(PLANTED)
    pytester.makepyfile(test_suite=SUITE)
    return pytester


def test_each_test_meets_one_combination(suite: pytest.Pytester) -> None:
    run = suite.runpytest("-p", "no:asyncio", "--promises")
    run.assert_outcomes(passed=20 + 1 + 1)


def test_every_combination_is_met(suite: pytest.Pytester) -> None:
    run = suite.runpytest("-p", "no:asyncio", "--every-combination")
    met = 20 * COMBINATIONS + len(BACKENDS)
    run.assert_outcomes(passed=met + 1)
    run.stdout.fnmatch_lines([f"21 tests met each *: {met} combinations"])
    assert run.ret == pytest.ExitCode.OK


def test_real_servers_are_met_on_one_loop_each(suite: pytest.Pytester) -> None:
    run = suite.runpytest("-p", "no:asyncio", "--real-servers", "-v")
    run.assert_outcomes(passed=20 * 2, deselected=20 * (COMBINATIONS - 2) + len(BACKENDS) + 1)
    for server in SERVERS[1:]:
        assert run.stdout.str().count(f"-{server}-") == 20


@pytest.mark.timeout(300)  # starts pytest, and that two workers
def test_a_combination_that_is_left_out_fails_the_run(suite: pytest.Pytester) -> None:
    left_out = "test_suite.py::test_a[trio-ensemble-7]"
    suite.makeconftest(
        PLANTED
        + f"""
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(items):
        items[:] = [item for item in items if item.nodeid != {left_out!r}]
    """
    )
    # With workers, as `make test-all` runs: the process that reports is another one than those
    # that collect.
    run = suite.runpytest_subprocess("-p", "no:asyncio", "--every-combination", "-n", "2")
    assert run.ret == pytest.ExitCode.TESTS_FAILED
    run.stdout.fnmatch_lines([f"test_suite.py::test_a[[]7]: {COMBINATIONS - 1} of {COMBINATIONS}*"])


# --- planted bugs ------------------------------------------------------------------------------


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
