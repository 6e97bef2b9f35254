"""The tables on the page about ensembles are what the kernel computes."""

from __future__ import annotations

import re

import pytest
from kit.pages import ROOT

from aiolead._session.timing import Timing
from aiolead.testing.simulation.ensemble.election import quorum_size
from aiolead.testing.simulation.ensemble.rehearsal import rehearse

PAGE = (ROOT / "docs" / "explanation" / "ensembles.md").read_text()
SIZES = range(1, 8)


def _table(first_column: str) -> list[list[str]]:
    """The rows of the table whose first column has this name, without its head."""
    (rows,) = re.findall(rf"^\| {first_column} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def _failures_survived(servers: int) -> int:
    members = range(1, servers + 1)

    def elect(failures: int) -> bool:
        left = dict.fromkeys(members[failures:], (1, 0))
        return rehearse(left, voters=members).leader is not None

    return max(failures for failures in range(servers) if elect(failures))


def _row(servers: int) -> list[int]:
    quorum = quorum_size(servers)
    logs = dict.fromkeys(range(1, servers + 1), (1, 0))
    return [
        servers,
        quorum,
        _failures_survived(servers),
        quorum - 1,
        3 * (servers - 1),
        rehearse(logs).notifications,
    ]


def test_table_of_sizes() -> None:
    assert [[int(cell) for cell in row] for row in _table("servers")] == [*map(_row, SIZES)]


@pytest.mark.parametrize("even", [size for size in SIZES if size % 2 == 0])
def test_even_sizes_tolerate_no_more_failures(even: int) -> None:
    odd = _row(even - 1)
    _, _, failures, acknowledgements, messages, notifications = _row(even)
    assert failures == odd[2]
    assert acknowledgements == odd[3] + 1
    assert messages > odd[4]
    assert notifications > odd[5]


def test_remaining_time_of_a_lease() -> None:
    timing = Timing.derive(1.0, tick_time=None, grace_period=None)
    # The lease counts from the renewal before the answered one (docs/explanation/safety.md).
    just_renewed = timing.session_timeout - timing.margin - timing.renew_every
    assert f"between {just_renewed - timing.renew_every:.2f} tau and {just_renewed:.2f} tau" in PAGE
    assert f"\n    {just_renewed - timing.renew_every:.2f} tau\n" in PAGE


def test_table_of_timeouts() -> None:
    def seconds(cell: str) -> float:
        return float(cell.removesuffix(" s"))

    rows = _table("T")
    assert rows
    for tick, sync_limit, granted, silence, session_timeout in rows:
        least, most = map(seconds, granted.split(" to "))
        assert (least, most) == (2 * seconds(tick), 20 * seconds(tick))
        assert seconds(silence) == int(sync_limit) * seconds(tick)
        assert seconds(session_timeout) == pytest.approx(seconds(silence) / 0.40)
