"""The benchmarks work, and what they count is exact. Nothing here is about seconds."""

from __future__ import annotations

import gc
import os
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.driver import Driver, PeerFailedError
from benchmarks.forwarder import Forwarder
from benchmarks.peers.registry import PEERS, PeerKind
from benchmarks.progress import Progress
from benchmarks.results import Failure
from benchmarks.run import Choice, Drivers, Run, Step, steps_for_progress
from benchmarks.site import Setting, Site, serving
from benchmarks.workloads import WORKLOADS, Values


@pytest.fixture(scope="module")
def site(zookeeper_installed: None) -> Iterator[Site]:
    """A server of its own: that of the other tests ends sessions early, so that clients ping it."""
    with serving(servers=1, fsync=False) as servers:
        yield Site(Setting(), servers)


def measured(site: Site, peer: str, *names: str) -> dict[str, Values]:
    """One tiny sample of each workload."""
    choice = Choice("tiny", 1, 0, ("standalone",), names, (peer,))
    steps = choice.steps()
    assert {step.workload.name for step in steps} == set(names)
    run = Run(choice, Progress(steps_for_progress(steps)))
    with Drivers() as drivers:
        for step in steps:
            run.one(step, site, site, drivers)
    assert run.results.failures == []
    found = {sample.workload: sample.values for sample in run.results.samples}
    for name in names:
        keys = {column.key for column in WORKLOADS[name].columns}
        assert keys <= set(found[name])
    return found


def test_requests_for_counts_are_not_counted(site: Site) -> None:
    before = site.traffic()
    site.glance()
    assert site.settled() == before


@pytest.mark.parametrize(
    ("peer", "requests"), [("limit", 3), ("aiolead", 3), ("kazoo", 4), ("aiozk", 3)]
)
def test_requests_of_a_lock(site: Site, peer: str, requests: int) -> None:
    found = measured(site, peer, "sequential-get", "lock-cycles")
    assert found["sequential-get"]["requests"] == found["sequential-get"]["packets_out"] == 1
    assert found["lock-cycles"]["requests"] == found["lock-cycles"]["packets_out"] == requests


@pytest.mark.parametrize("peer", ["aiolead", "kazoo"])
def test_workloads_that_grow(site: Site, peer: str) -> None:
    found = measured(
        site, peer, "holds-1000", "watches-1000", "tree-1000", "observers-100", "items-1000"
    )
    assert found["tree-1000"]["copy"] > 0
    assert found["items-1000"]["take"] > 0


@pytest.mark.parametrize("peer", ["aiolead-threads", "kazoo"])
def test_threads_of_one_client(site: Site, peer: str) -> None:
    found = measured(site, peer, "threads-gets-4", "threads-locks-4")
    assert all(values["per_second"] > 0 for values in found.values())


@pytest.mark.skipif(
    os.environ.get("AIOLEAD_REQUIRE_CURATOR") != "1",
    reason="compiling takes seconds: only with AIOLEAD_REQUIRE_CURATOR=1, as CI does it",
)
def test_requests_of_a_curator_lock(site: Site) -> None:
    # Cold: warming up is for what takes time.
    cold = measured(site, "curator-cold", "lock-cycles")
    assert cold["lock-cycles"]["requests"] == cold["lock-cycles"]["packets_out"] == 3


@pytest.mark.parametrize(
    ("peer", "requests", "events"), [("limit-trio", 4, 1), ("aiolead-trio", 7, 3)]
)
def test_requests_of_a_hand_over(site: Site, peer: str, requests: int, events: int) -> None:
    turn = measured(site, peer, "handover-10")["handover-10"]
    # A hold that was to last for a hundredth of a second and took a tenth is renewed: two requests.
    margin = 2 * turn["overlong"] / 20
    assert turn["requests"] == pytest.approx(requests, abs=margin + 1e-9)
    assert turn["packets_out"] == pytest.approx(turn["requests"] + events, abs=margin + 1e-9)
    # Of 30 turns, without those in which a contender is missing.
    assert len(turn["latencies"]) == 9


def test_crowd_and_recovery(site: Site) -> None:
    found = measured(site, "limit-trio", "crowd-100", "recover-reset")
    # Of five contenders and the holder: create and look, and watch the one before.
    assert found["crowd-100"]["joining_requests"] == (1 + 5 * 3) / 5
    assert found["recover-reset"]["attempts"] >= 1


def test_forwarder_delays_both_directions() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        with Forwarder(f"127.0.0.1:{listener.getsockname()[1]}") as forwarder:
            host, _, port = forwarder.hosts.partition(":")
            with socket.create_connection((host, int(port)), 20) as client:
                forwarder.tell("delay 0.02")
                start = time.monotonic()
                client.sendall(b"there")
                server = threads.submit(listener.accept).result(20)[0]
                with server:
                    server.sendall(server.recv(5))
                    assert client.recv(5) == b"there"
                assert time.monotonic() - start >= 0.04
                # Data that was sent before the end still arrives.
                assert client.recv(5) == b""


# --- failures ------------------------------------------------------------------------------------


def _broken(program: str) -> PeerKind:
    return PeerKind("kazoo", "kazoo", "threads", lambda: [sys.executable, "-c", program])


def test_forecast_of_a_full_run_is_that_of_the_pages() -> None:
    """`make bench` takes about 35 minutes, by what it says itself before it begins."""
    forecast = Progress(steps_for_progress(Choice().steps())).left()
    assert 30 * 60 < forecast < 35 * 60


def test_late_run_measures_only_the_rows_of_the_page(site: Site) -> None:
    names = ("lock-cycles", "crowd-10")
    steps = Choice("tiny", 1, 0, ("standalone",), names, ("limit",)).steps()
    run = Run(Choice("tiny"), Progress(steps_for_progress(steps)), minutes=-60)
    with Drivers() as drivers:
        for step in steps:
            run.one(step, site, site, drivers)
    assert [sample.workload for sample in run.results.samples] == ["lock-cycles"]
    assert run.results.skipped == [["standalone", "crowd-10"]]


def test_run_goes_on_after_the_death_of_a_server(
    zookeeper_installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = Choice("tiny", 1, 0, ("standalone",), ("crowd-1", "crowd-10"), ("limit",))
    steps = choice.steps()
    run = Run(choice, Progress(steps_for_progress(steps)))
    take, servers = run._take, []

    def kill_the_first(step: Step, site: Site, *others: Any) -> Values:
        if not servers:
            site.servers[0].kill()
        servers.append(site.servers[0])
        return take(step, site, *others)

    monkeypatch.setattr(run, "_take", kill_the_first)
    results = run.everything(steps)
    assert [failure.workload for failure in results.failures] == ["crowd-1"]
    assert [sample.workload for sample in results.samples] == ["crowd-10"]
    assert len(set(servers)) == 2


def test_peer_that_ends_early_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = Driver.call

    def ask_too_late(driver: Driver, verb: str) -> dict[str, Any]:
        driver._process.wait()
        return call(driver, verb)

    monkeypatch.setattr(Driver, "call", ask_too_late)
    with pytest.raises(PeerFailedError, match="no such luck"):
        Driver(_broken("raise SystemExit('no such luck')"))
    gc.collect()  # an open file is a warning, and so an error


def test_failed_peer_is_reported_with_a_way_to_repeat_it(site: Site) -> None:
    choice = Choice("tiny", 1, 0, ("standalone",), ("lock-cycles",), ("kazoo",))
    step = replace(choice.steps()[0], peer=_broken("raise SystemExit('no such luck')"))
    run = Run(choice, Progress([(step.kind, 1.0)] * 3))
    with Drivers() as drivers:
        for _ in range(3):
            run.one(step, site, site, drivers)
    assert run.results.samples == []
    # It is not asked for the third time.
    first, _ = run.results.failures
    assert isinstance(first, Failure)
    assert "no such luck" in first.what
    again = first.again.split()
    assert again[:4] == ["python", "-m", "benchmarks", "run"]
    assert again[again.index("--workloads") + 1] == "lock-cycles"
    assert again[again.index("--peers") + 1] == "kazoo"


def test_error_of_a_peer_is_reported() -> None:
    with Driver(PEERS["limit"]) as driver, pytest.raises(PeerFailedError, match="nonsense"):
        driver.call("nonsense")
