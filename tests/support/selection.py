"""Which tests a run selects, and on which event loop and kind of server each of them runs.

pytest runs whatever it is asked for, on every event loop and every kind of server. Three options
change that:

* `--promises`, used by `make test`: every behaviour test meets one event loop and one kind of
  server, which a hash of its node id chooses. Tests below `BOTH_LOOPS` meet asyncio and trio. What
  `ELSEWHERE` and `SAMPLED` list is left to `make test-all`.
* `--every-combination`, used by `make test-all`: nothing is left out, and the run fails if a test
  has not met each combination of its event loops and servers.
* `--real-servers`, used by `make every-zookeeper`: every test that can meet a real server meets
  each kind of them, on one event loop, which a hash of its node id chooses.

The choice depends on names alone: it is the same on every machine and in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import pytest

from support.loops import BACKENDS

T = TypeVar("T")

LOOPS = tuple(str(backend.id) for backend in BACKENDS)
"""The event loops, by the names that they have in node ids."""

BACKEND_PARAMETERS = frozenset({"anyio_backend", "backend"})
"""The parameters for event loops: of coroutine tests, and of tests that run one themselves, such as
those on virtual time."""

EMBEDDED = "embedded"
REAL_SERVERS = ("standalone", "ensemble")
SERVERS = (EMBEDDED, *REAL_SERVERS)
"""The kinds of servers, by the names that they have in node ids."""

REAL_FIXTURES = frozenset({"zookeeper_installed", "real_server", "real_ensemble"})
"""What tests take that run on real servers."""

# --- what `make test` selects ------------------------------------------------------------------

BOTH_LOOPS = (
    "tests/recipes/election/",
    "tests/recipes/locks/",
    "tests/recipes/test_cancellation",
    "tests/recipes/test_every_recipe_cancelled.py",
    "tests/recipes/test_leaving.py",
    "tests/recipes/test_left_elsewhere.py",
    "tests/recipes/test_threads.py",
    "tests/recipes/queues/test_queue_cancellation.py",
    "tests/recipes/values/test_values_cancelled.py",
    "tests/client/test_cancelled_from_outside.py",
    "tests/client/test_client_home.py",
    "tests/client/test_pending_reply.py",
)
"""How the node ids begin of tests that always meet asyncio and trio: what is lost when these are
wrong is mutual exclusion, and the loops differ most in how they cancel."""

REAL_TIER = (
    "tests/conformance/",
    "tests/recipes/test_every_recipe.py",
    "tests/recipes/test_faults_servers.py",
    "tests/recipes/test_margin.py",
)
"""How the node ids begin of tests that meet a real server whenever they can; the other tests that
take any kind of server meet the embedded one three times out of four."""

_COMMAND = "the command at the edges; running, locking and electing with it are tested here"

_RANDOM = "random data, beside the worst data, all of which is tried"

_MARGIN = "test_margin.py does the same to a server, and measures the margin"

_DEATHS = "the same loss in one more way; what it ends is tested here"

_KIT = "the test kit's servers, which the tests of the recipes start, kill and isolate"

_TOOLS = "checks what runs these tests, and nothing of the library"

_AIOZK = "waits for aiozk's own timeouts; the same recipes alone on a client are tested here"

_LINT = "`make lint`, with which `make test` begins, does the same"

_REAL = "the same on the embedded server, in a tenth of the time"

ELSEWHERE: dict[str, str] = {
    "tests/adapters/test_aiozk_faults.py": "the recipes' promises over a client that is not ours",
    "tests/adapters/test_aiozk_trio.py": "the recipes' promises over a client that is not ours",
    "tests/adapters/test_aiozk_shared.py::test_theirs_is_left_alone_after_a_create": _AIOZK,
    "tests/adapters/test_aiozk_shared.py::test_what_has_a_path_of_its_own": _AIOZK,
    "tests/chaos/test_chaos.py": "random faults find new bugs; known ones have tests of their own",
    "tests/cli/test_absurd_grant.py": _COMMAND,
    "tests/cli/test_bench.py": _COMMAND,
    "tests/cli/test_dashboard.py": _COMMAND,
    "tests/cli/test_dashboard_connections.py::test_any_text": _RANDOM,
    "tests/cli/test_dashboard_page.py": "needs a browser",
    "tests/cli/test_degrading.py": _COMMAND,
    "tests/cli/test_demo.py": _COMMAND,
    "tests/cli/test_doctor.py": _COMMAND,
    "tests/cli/test_ensemble.py": _COMMAND,
    "tests/cli/test_feed.py": _COMMAND,
    "tests/cli/test_first_hour.py": _COMMAND,
    "tests/cli/test_herd.py": _COMMAND,
    "tests/cli/test_hostile_servers.py": _COMMAND,
    "tests/cli/test_hostile_views.py": _COMMAND,
    "tests/cli/test_lock.py::test_shared_and_exclusive[standalone": _COMMAND,
    "tests/cli/test_lock.py::test_slots": _COMMAND,
    "tests/cli/test_lock.py::test_somebody_else_has_it": _COMMAND,
    "tests/cli/test_loss.py::test_a_command_that_holds_something_else": _COMMAND,
    "tests/cli/test_loss.py::test_a_link_that_carries_nothing[standalone": _REAL,
    "tests/cli/test_loss.py::test_a_short_outage": _COMMAND,
    "tests/cli/test_run_killed.py::test_a_second_command_in_one_session": _COMMAND,
    "tests/cli/test_server.py::test_clients_show_certificates": _COMMAND,
    "tests/cli/test_server.py::test_tls": _COMMAND,
    "tests/cli/test_server.py::test_what_the_file_says": _COMMAND,
    "tests/cli/test_server.py::test_who_may_log_in": _COMMAND,
    "tests/cli/test_top.py::test_on_a_terminal": "needs tmux",
    "tests/docs/test_adding_a_recipe.py::test_as_a_program": "runs an example as a program",
    "tests/docs/test_examples.py": "runs each example as a program",
    "tests/blocking/test_blocking_handlers.py::test_a_handler_never_hangs[asks-at-each": (
        "a handler at each of some thousand instructions; one that closes at any of them runs here"
    ),
    "tests/blocking/test_blocking_losses.py::test_a_silent_link_and_a_real_server": _REAL,
    "tests/client/test_client_faults.py::test_another_server_takes_over_when_ours": _DEATHS,
    "tests/client/test_client_quotas.py::test_hard_limits_hold_on_a_real_server": _REAL,
    "tests/client/test_guardian.py::test_a_daemon": _DEATHS,
    "tests/client/test_guardian.py::test_a_debugger": _DEATHS,
    "tests/client/test_guardian.py::test_handed_over": _DEATHS,
    "tests/client/test_guardian.py::test_no_server_in_reach": _DEATHS,
    "tests/client/test_guardian.py::test_on_a_real_ensemble": _REAL,
    "tests/client/test_guardian.py::test_out_of_memory": _DEATHS,
    "tests/client/test_guardian.py::test_servers_that_come_back": _DEATHS,
    "tests/client/test_guardian_workers.py": "needs gunicorn and uvicorn",
    "tests/client/test_real_ensembles.py": "the same features on the embedded server",
    "tests/client/test_watchdog.py::test_a_blocked_event_loop_and_a_real_server": _REAL,
    "tests/client/test_watchdog.py::test_a_hook_that_fails": _DEATHS,
    "tests/client/test_watchdog.py::test_a_process_that_was_stopped": _DEATHS,
    "tests/client/test_watchdog.py::test_bodies_that_stop": _DEATHS,
    "tests/client/test_watchdog.py::test_code_that_keeps_the_interpreter": _DEATHS,
    "tests/client/test_watchdog.py::test_other_processes_are_not_ended": _DEATHS,
    "tests/docs/test_reference_markdown.py::test_the_pages_are_current": "needs Sphinx",
    "tests/docs/test_frameworks.py": "needs the frameworks of the examples",
    "tests/docs/test_manifests.py": "needs the frameworks of the examples",
    "tests/docs/test_migrating.py": "needs Redis and Curator",
    "tests/docs/test_pages.py::test_programs_run": "runs each example of the pages as a program",
    "tests/docs/test_pages.py::test_tests_pass": "runs each example of the pages as a program",
    "tests/docs/test_pages.py::test_the_demo": "runs each example of the pages as a program",
    "tests/docs/test_site.py": "needs Sphinx",
    "tests/docs/test_tutorial.py": "runs the tutorial as programs",
    "tests/examples/": "runs each example as a program",
    "tests/interop/": "needs Curator and a Java compiler",
    "tests/kit/test_backends.py": _TOOLS,
    "tests/kit/test_check_client.py::test_an_adapted_client": "a client that is not ours",
    "tests/kit/test_check_client.py::test_planted_bugs": "checks the kit, and nothing it checks",
    "tests/kit/test_collecting.py": _TOOLS,
    "tests/kit/test_ensemble.py::test_an_isolated": _KIT,
    "tests/kit/test_ensemble.py::test_as_a_context_manager": _KIT,
    "tests/kit/test_ensemble.py::test_members_know": _KIT,
    "tests/kit/test_hanging.py": _TOOLS,
    "tests/kit/test_pytest_plugin.py::test_a_version": _KIT,
    "tests/kit/test_pytest_plugin.py::test_an_address_that_makes_no_sense": _KIT,
    "tests/kit/test_pytest_plugin.py::test_an_ensemble_is_brought_back": _KIT,
    "tests/kit/test_pytest_plugin.py::test_servers_that_were_given": _KIT,
    "tests/kit/test_servers.py::test_a_paused_server": _KIT,
    "tests/kit/test_servers.py::test_a_server_is_of_the_version": _KIT,
    "tests/kit/test_servers.py::test_as_a_context_manager": _KIT,
    "tests/kit/test_servers.py::test_data_survive_a_restart": _KIT,
    "tests/kit/test_servers.py::test_it_is_gone_also": _KIT,
    "tests/kit/test_servers.py::test_verbs_need": _KIT,
    "tests/kit/test_stalls.py": _TOOLS,
    "tests/kit/test_zookeeper_tools.py": _TOOLS,
    "tests/login/test_kerberos.py": "needs a Kerberos server and its headers",
    "tests/login/test_sasl_digest.py::test_nobody_else_is[real": _REAL,
    "tests/login/test_sasl_digest.py::test_whoever_knows_the_password_is_let_in[real": _REAL,
    **{
        f"tests/login/test_tls.py::{test}[real": _REAL
        for test in (
            "test_a_certificate_of_ours_that_the_server_refuses",
            "test_a_wrong_host_name",
            "test_an_expired_certificate",
            "test_mutual_tls",
            "test_tls",
        )
    },
    "tests/meta/test_prose.py::test_a_page_is_written_plainly": _LINT,
    "tests/meta/test_prose.py::test_docstrings_and_comments_are_written_plainly": _LINT,
    "tests/meta/test_regular_expressions.py": (
        "tries each regular expression on long texts; test_parsers.py parses the worst data here"
    ),
    "tests/meta/test_selection.py::test_a_combination_that_is_left_out": _TOOLS,
    "tests/meta/test_selection.py::test_every_combination_is_met": _TOOLS,
    "tests/meta/test_selection.py::test_real_servers_are_met": _TOOLS,
    "tests/performance/": "benchmarks measure, and promise nothing",
    "tests/recipes/test_faults_link.py::test_links_to_a_real_server_that_fall_silent": _REAL,
    "tests/recipes/test_faults_servers.py::test_follower_that_": _MARGIN,
    "tests/recipes/test_lost_messages.py::test_recipes_ride_on[held": (
        "loses each of some hundred messages; those of what is done and followed are lost here"
    ),
    "tests/recipes/test_lost_messages.py::test_recipes_ride_on_at_a_real_server": (
        "the same on the embedded server takes a tenth of the time"
    ),
    "tests/recipes/test_margin.py::test_killed_follower": (
        "it ends at once; one that is isolated serves on for longer than a session"
    ),
    "tests/server/test_reconfig_differential.py": (
        "compares the embedded server with an ensemble of its own"
    ),
    "tests/server/test_zkcli.py": "starts programs of ZooKeeper's own in Java",
    "tests/simulation/test_conformance.py": "compares simulated servers with real ensembles",
    "tests/simulation/test_election_real.py": "compares simulated elections with real ensembles",
    "tests/simulation/test_planted_bugs.py": "checks the simulation, and nothing of the library",
    "tests/simulation/test_schedules_asyncio.py": "test_schedules.py reaches the same with few",
    "tests/simulation/test_schedules_trio.py": "test_schedules.py reaches the same with few",
    "tests/spec/test_lease_rules.py": "needs TLC, and checks no code of the library",
    "tests/spec/test_lease_traces.py::test_a_bug": "checks the check of traces",
    "tests/spec/test_lease_traces.py::test_other_planted_bugs": "checks the check of traces",
    "tests/spec/test_lease_traces.py::test_a_late_cancellation": "checks the check of traces",
    "tests/spec/test_lease_traces.py::test_half_a_tick_without_drift": "checks the check of traces",
    "tests/spec/test_queue_rules.py": "needs TLC, and checks no code of the library",
    "tests/spec/test_queue_traces.py::test_a_bug": "checks the check of traces",
    "tests/spec/test_queue_traces.py::test_other_planted_bugs": "checks the check of traces",
    "tests/spec/test_specifications.py": "needs TLC, and checks no code of the library",
    "tests/typing/": "needs pyright",
    "tests/unit/test_fuzz.py::test_what_made_sense_until_it_was_changed": _RANDOM,
    "tests/unit/test_fuzz.py::test_what_never_made_sense": _RANDOM,
    "tests/unit/wire/test_wire_records.py::test_a_garbled_record_is_a_record_or_refused": _RANDOM,
    "tests/unit/wire/test_wire_records.py::test_any_bytes_are_a_record_or_refused": _RANDOM,
}
"""Folders, files and tests that only `make test-all` runs, and why no promise depends on them."""

KEPT = (
    "tests/adapters/test_aiozk_shared.py::test_what_has_a_path_of_its_own_is_theirs[ExclusiveLock",
    "tests/cli/test_dashboard.py::test_a_token_that_is_wrong_earns_no_place",
    "tests/cli/test_herd.py::test_a_table_and_bars",
    "tests/cli/test_hostile_servers.py::test_hostile_admin_servers",
    "tests/client/test_guardian.py::test_child_processes[pipe-fork-that-lives",
)
"""Of those, and of `SAMPLED`, what `make test` runs in any case: tests that see a planted bug, or
that alone reach a module outside the command."""

_SWEEP = "each case cancels at every await; the cases of one recipe differ in little"
_HOSTILE = "every answer is tried on one of several kinds of requests"
_REPEATED = "each case waits for half a session timeout, for one more request"
_PROCESSES = "each case starts processes, and ends them in one more way"

SAMPLED: dict[str, tuple[int, str]] = {
    "tests/blocking/test_blocking_closing.py::test_threads_that_try_again": (2, _PROCESSES),
    "tests/client/test_client_dropped_replies.py": (2, "each request is one case"),
    "tests/client/test_client_faults.py::test_a_renewal_that_is_swallowed": (3, _REPEATED),
    "tests/client/test_client_faults.py::test_a_request_that_is_swallowed": (3, _REPEATED),
    "tests/client/test_client_home.py::test_a_forked_child": (3, _PROCESSES),
    "tests/client/test_client_hostile_configs.py::test_any_configuration": (4, _HOSTILE),
    "tests/client/test_client_hostile_servers.py::test_any_answer": (3, _HOSTILE),
    "tests/client/test_client_hosts.py::test_a_target_elsewhere": (2, "a refusal waits for real"),
    "tests/client/test_guardian.py::test_child_processes": (5, _PROCESSES),
    "tests/client/test_guardian.py::test_children": (2, _PROCESSES),
    "tests/client/test_guardian.py::test_the_process_goes_on": (3, _PROCESSES),
    "tests/client/test_guardian.py::test_the_next_one_holds": (2, _PROCESSES),
    "tests/costs/test_costs.py::test_an_operation_costs": (
        3,
        "every row of the table of costs; test_counts.py counts requests of locks and elections",
    ),
    "tests/recipes/barriers/test_barriers.py::test_an_answer_is_lost": (3, "all recipes alike"),
    "tests/recipes/locks/test_condition.py::test_cancelled": (4, _SWEEP),
    "tests/recipes/locks/test_semaphore.py::test_a_create_whose_answer": (3, "all recipes alike"),
    "tests/recipes/membership/test_group.py::test_cancelled": (4, _SWEEP),
    "tests/recipes/membership/test_partitioner.py::test_cancelled": (4, _SWEEP),
    "tests/recipes/membership/test_persistent_node.py::test_cancelled": (4, _SWEEP),
    "tests/recipes/queues/test_queue_cancellation.py::test_cancelled": (4, _SWEEP),
    "tests/recipes/tasks/test_task_board_cancellation.py::test_cancelled": (4, _SWEEP),
    "tests/recipes/test_cancellation.py::test_cancelled": (4, _SWEEP),
    "tests/recipes/test_cancellation_shared.py::test_cancelled": (4, _SWEEP),
    "tests/recipes/test_every_recipe_cancelled.py": (4, _SWEEP),
    "tests/recipes/test_hostile_znodes.py": (3, "each case is one recipe and one kind of data"),
    "tests/recipes/test_refusals.py::test_a_refused_release_is_logged": (4, "all recipes alike"),
    "tests/recipes/values/test_values_cancelled.py::test_cancelled": (4, _SWEEP),
    "tests/server/test_embedded_differential.py::test_same_answers": (
        3,
        "tests/conformance compares the same",
    ),
    "tests/simulation/test_ensemble_random.py::test_replicas_agree": (2, "each is one seed"),
    "tests/unit/test_parsers.py::test_hostile": (8, _RANDOM),
}
"""Tests with many cases: `make test` runs one case of so many, and why that is enough."""


@dataclass(frozen=True, slots=True)
class Combination:
    """On what a test runs.

    Attributes:
        test: its node id without the event loop and the server.
        loop: the event loop; empty for a test that has no parameter for it.
        server: the kind of server; empty for a test that does not take `server`.
    """

    test: str
    loop: str
    server: str

    @classmethod
    def of(cls, item: pytest.Item) -> Combination:
        return cls.named(item.nodeid.partition("[")[0], getattr(item, "callspec", None))

    @classmethod
    def named(cls, test: str, spec: Any) -> Combination:
        """The same for a test and pytest's `CallSpec2`, if it has one."""
        if spec is None:
            return cls(test, "", "")
        parts = spec.id.split("-")
        loop = "" if BACKEND_PARAMETERS.isdisjoint(spec.params) else _take(parts, LOOPS)
        server = _take(parts, SERVERS) if "server" in spec.params else ""
        return cls(f"{test}[{'-'.join(parts)}]" if parts else test, loop, server)

    @property
    def is_rotated(self) -> bool:
        """Whether there is anything to choose."""
        return bool(self.loop or self.server)


def _take(parts: list[str], names: tuple[str, ...]) -> str:
    """Takes the first of the names out of the parts of an id."""
    found = next((part for part in parts if part in names), "")
    if found:
        parts.remove(found)
    return found


def reaches_real_server(item: pytest.Item) -> bool:
    """Whether a test needs a real server.

    Not by marks on the parameters of fixtures: an indirect `parametrize` replaces those.
    """
    spec = getattr(item, "callspec", None)
    kinds = [value for value in spec.params.values() if isinstance(value, str)] if spec else []
    names = getattr(item, "fixturenames", ())
    return not (REAL_FIXTURES.isdisjoint(names) and set(REAL_SERVERS).isdisjoint(kinds))


def promised(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Those of all tests that `make test` runs."""
    return set(_promised((Combination.of(item), item) for item in items))


def _promised(each: Iterable[tuple[Combination, T]]) -> Iterator[T]:
    groups: dict[str, list[tuple[Combination, T]]] = {}
    for combination, item in each:
        groups.setdefault(combination.test, []).append((combination, item))
    for test, group in groups.items():
        if not _is_elsewhere(test):
            yield from _chosen(test, group)


def on_real_servers(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Those with real servers, each on one event loop."""
    loops: dict[str, set[str]] = {}
    found = [(Combination.of(item), item) for item in items if reaches_real_server(item)]
    for each, _ in found:
        loops.setdefault(each.test, set()).add(each.loop)
    return {item for each, item in found if each.loop == _one_loop(each.test, loops[each.test])}


def _one_loop(test: str, loops: set[str]) -> str:
    known = [loop for loop in LOOPS if loop in loops] or [""]
    return known[_number(test, "loop") % len(known)]


def _is_elsewhere(test: str) -> bool:
    if test.startswith(KEPT):
        return False
    if any(test.startswith(each) for each in ELSEWHERE):
        return True
    share = next((n for each, (n, _) in SAMPLED.items() if test.startswith(each)), 1)
    return _number(test, "case") % share != 0


def _chosen(test: str, group: list[tuple[Combination, T]]) -> Iterator[T]:
    known = {each.loop for each, _ in group}
    is_both = {"asyncio", "trio"} <= known and test.startswith(BOTH_LOOPS)
    for loop in ("asyncio", "trio") if is_both else (_one_loop(test, known),):
        found = {each.server: item for each, item in group if each.loop == loop}
        real = [server for server in REAL_SERVERS if server in found]
        number = _number(test, loop)
        is_real = len(real) == len(found) or number % 4 == 0 or test.startswith(REAL_TIER)
        if real and is_real:
            yield found[real[number // 4 % len(real)]]
        else:
            yield found[EMBEDDED if EMBEDDED in found else ""]


def _number(test: str, of: str) -> int:
    return int.from_bytes(blake2b(f"{of} {test}".encode(), digest_size=8).digest())


# --- the options -------------------------------------------------------------------------------


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("aiolead's own tests")
    group.addoption(
        "--promises", action="store_true", help="what `make test` runs: see tests/support/selection"
    )
    group.addoption(
        "--every-combination",
        action="store_true",
        help="fail if a test has not met each of its event loops and servers, as `make test-all`",
    )
    group.addoption(
        "--real-servers",
        action="store_true",
        help="only tests with real servers, each on one event loop, as `make every-zookeeper`",
    )


class RealServers:
    """The plugin behind `--real-servers`."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        _select(config, items, on_real_servers(items))


def _select(config: pytest.Config, items: list[pytest.Item], selected: set[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = [item for item in items if item in selected]


class Promises:
    """The plugin behind `--promises`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Does not even import what is left to `make test-all` as a whole."""
        if collection_path.is_relative_to(self._root):
            name = collection_path.relative_to(self._root).as_posix()
            is_elsewhere = name in ELSEWHERE or f"{name}/" in ELSEWHERE
            if is_elsewhere and not any(each.startswith(name) for each in KEPT):
                return True
        return None

    @pytest.hookimpl(wrapper=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> Iterator[None]:
        """Leaves out at once what would be deselected: making items is half of collecting."""
        result = yield
        test, calls = metafunc.definition.nodeid, metafunc._calls
        chosen = _promised((Combination.named(test, call), call) for call in calls)
        # One is left in any case: without a call, pytest would make an item without parameters.
        calls[:] = list(chosen) or calls[:1]
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        _select(config, items, promised(items))


class EveryCombination:
    """The plugin behind `--every-combination`: whether each rotated test met all that it can."""

    _PROPERTY = "combination"

    def __init__(self) -> None:
        self._met: dict[str, set[tuple[str, str]]] = {}
        self._expected: dict[str, int] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Has each report say what to expect: where there are workers, they alone collect."""
        rotated = [(each, item) for item in items if (each := Combination.of(item)).is_rotated]
        loops: dict[str, set[str]] = {}
        servers: dict[str, set[str]] = {}
        for each, _ in rotated:
            loops.setdefault(each.test, set()).add(each.loop)
            servers.setdefault(each.test, set()).add(each.server)
        for each, item in rotated:
            count = len(loops[each.test]) * len(servers[each.test])
            told = (each.test, each.loop, each.server, count)
            item.user_properties.append((self._PROPERTY, told))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, told in report.user_properties:
            if name == self._PROPERTY:
                test, loop, server, count = told  # type: ignore[misc]
                self._expected[test] = count
                if report.when == "call" or report.skipped:
                    self._met.setdefault(test, set()).add((loop, server))

    def missing(self) -> list[str]:
        """The tests that did not run on everything, each with what it ran on."""
        return [
            f"{test}: {len(met)} of {count}, {sorted('-'.join(each) for each in met)}"
            for test, count in sorted(self._expected.items())
            if len(met := self._met.get(test, set())) != count
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        is_worker = hasattr(session.config, "workerinput")
        is_green = session.exitstatus == pytest.ExitCode.OK
        if not is_worker and is_green and self._expected and self.missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if missing := self.missing():
            terminalreporter.section("not on every event loop and every server", red=True)
            for line in missing:
                terminalreporter.line(line)
        elif self._expected:
            terminalreporter.line(
                f"{len(self._expected)} tests met each of their event loops and servers: "
                f"{sum(self._expected.values())} combinations"
            )


def configure(config: pytest.Config) -> None:
    """Registers what the options ask for."""
    if config.getoption("promises"):
        config.pluginmanager.register(Promises(config.rootpath), "aiolead-promises")
    if config.getoption("real_servers"):
        config.pluginmanager.register(RealServers(), "aiolead-real-servers")
    if config.getoption("every_combination"):
        config.pluginmanager.register(EveryCombination(), "aiolead-every-combination")
