"""The texts about the results of benchmarks follow from the results."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import bars, report
from benchmarks.curves import CURVES
from benchmarks.peers.registry import PEERS
from benchmarks.progress import Progress, clock
from benchmarks.results import Failure, Results, Sample
from benchmarks.rows import ROWS
from benchmarks.run import Choice
from benchmarks.site import ALL_SETTINGS
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.growth import SIZES

MACHINE = ("processor", "cores", "memory", "disk", "system", "python")


def made_up(**values: float) -> Results:
    """A run in which everybody has found 1 for everything, but for what is given."""
    results = Results("2020-01-01T00:00:00+00:00", "full", 0, 1, busy=[0.0, 0.01])
    results.machine = dict.fromkeys(MACHINE, "such")
    results.versions = {"zookeeper": "3"} | dict.fromkeys(PEERS, "1")
    for workload in WORKLOADS.values():
        for setting in workload.settings:
            for kind in PEERS.values():
                if workload.peers(kind) and kind.can_do(workload.name):
                    found = {column.key: 1.0 for column in workload.columns}
                    if kind.is_ours:
                        found |= {k: v for k, v in values.items() if k in found}
                    results.samples.append(Sample(workload.name, setting, kind.name, 0, found))
    return results


# --- the comparison, and what may be quoted -------------------------------------------------------


def test_table_has_every_row_and_peer_with_ratio_and_spread() -> None:
    results = made_up(per_second=2.0)
    sample = next(s for s in results.samples if (s.workload, s.peer) == ("lock-cycles", "aiolead"))
    slower = {**sample.values, "per_second": 1.0}
    results.samples += [replace(sample, round=1), replace(sample, round=2, values=slower)]
    lines = report.table(results).splitlines()
    assert len(lines) == 2 + len(ROWS)
    assert lines[2].startswith("| uncontended lock, cycles/s | 2 ±25% (2.00) | 2 (2.00) |")
    assert lines[2].endswith("| 1 **2.00** |")


def test_unmeasured_workloads_are_listed() -> None:
    some = [s for s in made_up().samples if not s.workload.startswith("holds-")]
    assert "Everything was measured" in report.markdown(made_up())
    lacking = replace(made_up(), samples=some)
    assert "* standalone: holds-1, " in report.markdown(lacking)
    assert "holds-20000" in (report.reason_not_to_quote(lacking) or "")
    # A workload that a run had no time for does not spoil the others.
    late = [["standalone", f"holds-{n}"] for n in SIZES["holds"]]
    assert report.reason_not_to_quote(replace(lacking, skipped=late)) is None
    assert "* standalone: holds-1, " in report.markdown(replace(lacking, skipped=late))


def test_curves_have_exponents() -> None:
    results = made_up()
    for sample in results.samples:
        family, _, size = sample.workload.rpartition("-")
        if family == "holds":
            sample.values["acquire"] = float(size) ** 2
    (line, *_) = [
        line
        for line in report.markdown(results).splitlines()
        if line.startswith("| aiolead | 1.000 | 100.000 |")
    ]
    assert line.endswith("| 400,000,000.000 | 2.00 |")
    assert {1, 10_000} <= set(CURVES[0].workloads)
    assert [max(curve.workloads) for curve in CURVES] == [
        10_000,  # contenders
        3000,  # a session each: more take minutes, as their listings grow with the square
        3000,  # in a hundred sessions
        20_000,  # holds
        100_000,  # watches
        100_000,  # tree
        1000,  # observers
        20_000,  # items
        32,
        32,
    ]


def test_only_full_runs_on_quiet_machines_may_be_quoted() -> None:
    assert report.reason_not_to_quote(made_up()) is None
    some = [sample for sample in made_up().samples if sample.setting == "standalone+delay"]
    partial = replace(made_up(), samples=some)
    assert report.reason_not_to_quote(partial) is None
    assert "Not run: standalone, " in report.markdown(partial)
    for bad in (
        replace(made_up(), scale="quick"),
        replace(made_up(), busy=[0.0, 0.3]),
        replace(made_up(), samples=[each for each in some if each.workload != "connect"]),
        replace(made_up(), samples=[]),
    ):
        assert report.reason_not_to_quote(bad) is not None
        assert "Do not quote these numbers: " in report.markdown(bad)


# --- the bars ------------------------------------------------------------------------------------


def test_every_bar_is_measured_by_a_workload() -> None:
    results = made_up()
    assert [bar.title for bar in bars.BARS for c in bar.checks if c.read(results) is None] == []


def verdicts(results: Results | None) -> dict[str, str]:
    lines = bars.table(results).splitlines()[2:]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return {row[0]: row[-1] for row in cells}


def test_verdicts_on_bars() -> None:
    assert set(verdicts(None).values()) == {"not measured"}
    # As fast as everybody else is not fast enough.
    even = verdicts(made_up())
    assert even["sequential reads, trio and uvloop"] == "met"
    assert even["usable again after RST or FIN"].startswith("**missed** by 4900% (ms (RST))")
    assert "**missed** by 44% (x kazoo)" in even["sequential reads, asyncio"]
    far = verdicts(made_up(per_second=4.0, usable=0.001, requests=3.004))
    assert far["usable again after RST or FIN"] == "met"
    assert far["sequential reads, asyncio"] == "met"
    assert far["uncontended lock cycles"] == "met"  # 3.004 requests are 3
    assert (
        "(requests)" in verdicts(made_up(per_second=4.0, requests=3.1))["uncontended lock cycles"]
    )


# --- the report, the file ------------------------------------------------------------------------


def test_run_is_kept_and_shown(tmp_path: Path) -> None:
    results = made_up(latency=0.0025)
    results.failures.append(Failure("connect", "ensemble", "aiozk", 1, "a | b", "python -m ..."))
    results.networks["standalone+delay"] = dict.fromkeys(("direct", "forwarded", "delayed"), 0.001)
    file = tmp_path / "results.json"
    results.save(file)
    assert list(tmp_path.iterdir()) == [file]
    assert Results.load(file) == results
    text = report.markdown(results)
    for workload in WORKLOADS.values():
        if not workload.is_curve:
            assert f"({workload.name!r})".replace("'", "`") in text
    for curve in CURVES:
        assert f"## {curve.title}\n" in text
    assert "| aiozk | connect | ensemble | a \\| b | `python -m ...` |" in text
    # Median, ratio to the limit on the same loop, ratio to the best peer.
    assert "| aiolead-trio | 2.50 |" in text
    (line, *_) = [line for line in text.splitlines() if line.startswith("| aiolead-trio | 2.50 |")]
    assert line.endswith("| 0.00 | 0.00 |")


def test_files_of_another_format_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text('{"format": 0}')
    with pytest.raises(ValueError, match="format"):
        Results.load(file)


# --- the order, the time left --------------------------------------------------------------------


def test_each_round_has_all_steps_in_another_order() -> None:
    steps = Choice("full", 3, seed=7).steps()
    assert set(Counter((s.kind, s.round) for s in steps).values()) == {1}
    assert {s.workload.name for s in steps} == set(WORKLOADS)
    assert {s.setting.name for s in steps} == set(ALL_SETTINGS)
    orders = {
        tuple(s.peer.name for s in steps if (*s.kind[:2], s.round) == ("standalone", "connect", n))
        for n in range(3)
    }
    assert len(orders) == 3
    assert [s.kind for s in Choice("full", 3, seed=7).steps()] == [s.kind for s in steps]


def test_quick_run_measures_most_bars() -> None:
    steps = Choice("quick").steps()
    assert {"sequential-get", "lock-cycles", "handover-10"} <= {s.workload.name for s in steps}
    assert len(steps) < 250


def test_progress_learns_the_times_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    out = io.StringIO()
    progress = Progress([("a", 1.0), ("b", 2.0), ("a", 1.0)], out)
    assert progress.left() == 4.0
    progress.begin("a")
    now[0] += 5.0
    progress.end()
    # Guesses were five times too small; and what "a" takes is known.
    assert progress.left() == 15.0
    assert "0:04 left" in out.getvalue()
    assert clock(3723) == "1:02:03"
