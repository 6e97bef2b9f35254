"""`aiolead elect`."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from typing import Any

from kit.cli import Command, Run
from kit.raw_client import RawClient

from aiolead import Phase
from aiolead.cli import elections
from aiolead.errors import LossReason
from aiolead.types import CampaignState


def state(command: Command, **wanted: object) -> dict[str, Any]:
    """The next one that is as wanted; those before it, which may be left out, are passed over."""
    while not wanted.items() <= (said := json.loads(command.out.expect(r"^\{.*\}$")[0])).items():
        pass
    return said


def test_one_leads_and_the_next_one_waits(hosts: str) -> None:
    with Command("elect", "/app", "--id", "one", "--json", hosts=hosts) as one:
        led = state(one, state="leading")
        assert (led["id"], led["rank"], led["reason"]) == ("one", 0, None)
        with Command("elect", "/app", "--id", "two", "--json", "--once", hosts=hosts) as two:
            assert state(two, state="following", rank=1)["token"] is None
            one.signal(signal.SIGTERM)
            assert one.finish() == 0
            succeeded = state(two, state="leading")
            assert succeeded["token"] > led["token"]
            # An operator takes its znode away.
            with RawClient(hosts) as client:
                client.delete(succeeded["node"])
            lost = state(two, state="lost", token=succeeded["token"])
            assert lost["reason"] == "the znode was deleted by somebody else"
            assert two.finish() == 74
            assert two.err.rest() == []


def test_as_text() -> None:
    following = CampaignState(Phase.FOLLOWING, 1)
    assert elections._as_text(following, "the \x1bone").endswith(r"Z  the \x1bone waits")
    assert elections._as_text(replace(following, rank=2), "one").endswith("one waits, 2 before it")
    lost = replace(following, phase=Phase.LOST, reason=LossReason.EXPIRED)
    assert elections._as_text(lost, "one").endswith("one has lost: the session expired")


def test_no_server(run: Run) -> None:
    code, out, err = run("elect", "/app", "--connect-timeout", "0.05", hosts="127.0.0.1:1")
    assert (code, out, len(err)) == (69, [], 1)
