"""`aiolead watch`."""

from __future__ import annotations

import json
import signal

from kit.cli import Command, Run, kazoo_client

from aiolead.cli import znodes
from aiolead.model import EventType, Missed, MissedReason, WatchEvent


def test_events_below_a_path_are_printed(hosts: str) -> None:
    with kazoo_client(hosts) as client:
        with Command("watch", "/app", "-r", "--json", hosts=hosts) as command:
            command.err.expect('"message": "watches /app"')
            client.create("/app")
            client.create("/app/\u202ex")
            client.set("/app", b"new")
            command.out.expect("data changed")
            command.signal(signal.SIGTERM)
            assert command.finish() == 0
            events = [json.loads(line) for line in command.out.rest()]
    assert [(event["event"], event["path"], event["reason"]) for event in events] == [
        ("created", "/app", None),
        ("created", "/app/\u202ex", None),
        ("data changed", "/app", None),
    ]


def test_events_as_text_and_json() -> None:
    event = WatchEvent(EventType.DATA_CHANGED, "/\u202ex")
    assert znodes._event_as_text(event).endswith(r"Z  data changed      /\u202ex")
    assert znodes._event_as_json(event)["zxid"] is None
    assert znodes._event_as_json(WatchEvent(EventType.CREATED, "/x", 7))["zxid"] == 7
    missed = Missed(MissedReason.RECONNECTED)
    assert znodes._event_as_text(missed).endswith("Z  some may be missing here: reconnected")
    assert znodes._event_as_json(missed)["reason"] == "reconnected"


def test_old_server_is_refused(run: Run, somewhere: str) -> None:
    assert run("watch /x --server-version 3.5") == (
        1,
        [],
        ["aiolead: a persistent watch needs ZooKeeper 3.6: connect(server_version=) says 3.5.1"],
    )
