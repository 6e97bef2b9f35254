"""The lines of the log about connections: `W` is shown by default, `I` at INFO."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.virtual_time import SESSION, Link, embedded, passes, virtually
from logs.log_lines import Lines, rows

import aiolead
from aiolead import Lock
from aiolead.errors import ConnectFailed
from aiolead.events import Event, EventName

PAGE = Path(aiolead.__file__).parents[1] / "docs" / "reference" / "logging.md"

HUNG_UP = "the server closed the connection"
REFUSED = "zk:N: the proxy refuses connections"


async def connected(lines: Lines) -> None:
    """Waits until the first line is there, and passes over it."""
    await passes(0.1)
    assert len(lines.new()) == 1


@virtually
async def test_client_without_faults_says_where_it_is_connected(lines: Lines) -> None:
    async with embedded() as server, Link(server).connect():
        pass
    assert lines.all == ["I connected to zk:N: session 0xN"]


@virtually
async def test_client_without_a_server_says_so_ever_more_rarely(lines: Lines) -> None:
    async with embedded() as server:
        link = Link(server)
        link.down()
        async with link.connect(connect_timeout=0):
            await passes(25.0)
            assert lines.new() == [f"W no server yet, trying: {REFUSED}"]
            await passes(10.0)
            assert lines.new() == [f"W still no server after 30 s: {REFUSED}"]
            await passes(500.0)
            still = [re.search(r"after (\d+) s", line)[1] for line in lines.new()]  # type: ignore[index]
            assert [round(int(each), -1) for each in still] == [60, 120, 240, 480]
            link.heal()
            await passes(5.0)
            assert lines.new() == ["W connected to zk:N after N s: session 0xN"]


@pytest.mark.parametrize(
    ("fault", "why"),
    [(Link.down, REFUSED), (Link.blackhole, "zk:N: no answer to the handshake in time")],
)
@virtually
async def test_program_that_waits_for_its_first_server_learns_why(
    lines: Lines, fault: Callable[[Link], None], why: str
) -> None:
    async with embedded() as server:
        link = Link(server)
        fault(link)
        with pytest.raises(ConnectFailed):
            async with link.connect():
                raise AssertionError
    assert lines.all == [f"W no server yet, trying: {why}"]


@virtually
async def test_short_loss_of_an_idle_client_is_no_warning(lines: Lines) -> None:
    async with embedded() as server, Link(server).connect():
        await connected(lines)
        server.disconnect()
        await passes(1.0)
        assert lines.new() == [
            f"I connection to zk:N lost ({HUNG_UP})",
            "I connected to zk:N again after N s: session 0xN kept",
        ]


@virtually
async def test_loss_of_a_holder_is_a_warning_and_so_is_its_end(lines: Lines) -> None:
    async with embedded() as server, Link(server).connect() as client, Lock(client, "/l"):
        await connected(lines)
        server.disconnect()
        await passes(0.2)
        assert lines.new() == [
            f"W connection to zk:N lost ({HUNG_UP}); the lease of 1 hold ends in N s",
            "W connected to zk:N again after N s: session 0xN kept",
        ]


@virtually
async def test_outage_has_a_beginning_and_an_end(lines: Lines) -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect():
            await connected(lines)
            link.down()
            await passes(SESSION / 4)
            link.heal()
            await passes(2.0)
            lost, missing, again = lines.new()
    assert lost.startswith("I connection to zk:N lost (the connection broke")
    assert missing == f"W no server, trying: {REFUSED}"
    assert again == "W connected to zk:N again after N s: session 0xN kept"


@virtually
async def test_long_outage_costs_the_session(lines: Lines) -> None:
    async with embedded() as server:
        link = Link(server)
        async with link.connect() as client:
            await connected(lines)
            link.down()
            await passes(40.0)
            link.heal()
            await client.ready()
            await passes(1.0)
            said = lines.new()
    assert said[1:] == [
        f"W no server, trying: {REFUSED}",
        f"W still no server after 30 s: {REFUSED}",
        "W session 0xN has expired: its ephemeral znodes are deleted",
        "W connected to zk:N again after N s: session 0xN is new",
    ]


@virtually
async def test_flapping_server_is_reported_a_few_times_in_a_minute(lines: Lines) -> None:
    async with embedded() as server, Link(server).connect():
        await connected(lines)
        for _ in range(30):
            server.disconnect()
            await passes(1.5)
        assert len(lines.new()) == 2 * 5
        await passes(60.0)
        server.disconnect()
        await passes(1.0)
        assert lines.new() == [
            f"I connection to zk:N lost ({HUNG_UP}) (and 25 times before)",
            "I connected to zk:N again after N s: session 0xN kept",
        ]


@virtually
async def test_each_line_has_its_facts_as_fields(
    lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Event] = []
    async with embedded() as server:
        link = Link(server)
        async with link.connect(on_event=told.append) as client, Lock(client, "/l"):
            link.down()
            await passes(1.0)
            link.heal()
            await passes(1.0)
    assert {event.name for event in told} >= {
        EventName.CONNECTION_OPENED,
        EventName.CONNECTION_LOST,
        EventName.CONNECTION_MISSING,
    }
    fields: dict[str, Any] = {}
    for record in lines.records():
        if record.name == "aiolead.connection":
            fields.setdefault(record.aiolead_event, record.aiolead_fields)  # type: ignore[attr-defined]
    lost = fields["connection.lost"]
    assert (lost["server"], lost["held"]) == ("10.0.0.1:2181", 1)
    assert 0 < lost["remaining"] < SESSION
    missing = fields["connection.missing"]
    assert missing["attempts"] == "10.0.0.1:2181: the proxy refuses connections"
    assert (missing["reports"], missing["session"]) == (1, "lost")
    assert fields["connection.opened"]["session"] == "first"


# --- the page ------------------------------------------------------------------------------------


_SHOWN = "zk1:2181: Connection refused"
EXAMPLES: list[tuple[EventName, dict[str, str | int | float]]] = [
    (EventName.CONNECTION_OPENED, {"server": "zk1:2181", "away": 0.0, "session": "first"}),
    (
        EventName.CONNECTION_MISSING,
        {"away": 0.1, "attempts": _SHOWN, "reports": 1, "session": "first"},
    ),
    (
        EventName.CONNECTION_MISSING,
        {"away": 30.0, "attempts": _SHOWN, "reports": 2, "session": "first"},
    ),
    (
        EventName.CONNECTION_LOST,
        {
            "server": "zk1:2181",
            "reason": HUNG_UP,
            "error": "ServerHungUp",
            "held": 1,
            "remaining": 7.1,
            "hidden": 0,
        },
    ),
    (
        EventName.CONNECTION_LOST,
        {
            "server": "zk1:2181",
            "reason": "the list of servers has changed",
            "error": "ConnectionLeft",
            "held": 1,
            "remaining": 7.1,
            "hidden": 0,
        },
    ),
    (
        EventName.CONNECTION_MISSING,
        {"away": 0.4, "attempts": _SHOWN, "reports": 1, "session": "lost"},
    ),
    (EventName.CONNECTION_OPENED, {"server": "zk2:2181", "away": 2.1, "session": "kept"}),
    (EventName.SESSION_EXPIRED, {"before": "suspended"}),
    (EventName.SESSION_AUTH_FAILED, {"before": "connecting", "reason": "a credential was refused"}),
    (EventName.LEASE_LATE, {"took": 2.7, "remaining": 4.1, "timeout": 10.0, "hidden": 0}),
    (EventName.CLIENT_STALLED, {"lasted": 5.2, "hidden": 0}),
]


def test_page_has_the_lines_of_the_events() -> None:
    lines = [
        str(Event(name, logging.INFO, 0 if "auth" in name else 1, "/x", fields))
        for name, fields in EXAMPLES
    ]
    assert rows(PAGE, "Connections and leases") == lines
