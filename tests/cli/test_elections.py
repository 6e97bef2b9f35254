"""`aiolead run` without a command, and `aiolead observe`."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kit.cli import Command, Run, prints
from kit.raw_client import RawClient

from aiolead import Phase
from aiolead.cli import elections
from aiolead.errors import LossReason
from aiolead.types import CampaignState


def state(command: Command, **wanted: object) -> dict[str, Any]:
    """The next state with some values. States before it may be left out by the command."""
    while not wanted.items() <= (said := json.loads(command.out.expect(r"^\{.*\}$")[0])).items():
        pass
    return said


def test_contender_without_a_command_reports_each_state(hosts: str) -> None:
    with Command("run", "--forever", "/app", "--id", "one", "--json", hosts=hosts) as one:
        led = state(one, state="leading")
        assert (led["id"], led["rank"], led["reason"]) == ("one", 0, None)
        with Command("run", "/app", "--id", "two", "--json", hosts=hosts) as two:
            assert state(two, state="following", rank=1)["token"] is None
            assert one.finish(signal.SIGTERM) == 0
            succeeded = state(two, state="leading")
            assert succeeded["token"] > led["token"]
            with RawClient(hosts) as client:
                client.delete(succeeded["node"])
            lost = state(two, state="lost", token=succeeded["token"])
            assert lost["reason"] == "the znode was deleted by somebody else"
            assert two.finish() == 74
            assert two.err.rest() == []


def test_run_without_a_command_reports_each_state(somewhere: str) -> None:
    with Command("run", "/app", "--id", "one", "--json", hosts=somewhere) as one:
        led = state(one, state="leading", id="one")
        with RawClient(somewhere) as client:
            client.delete(led["node"])
        state(one, state="lost")
        assert one.finish() == 74
    with Command("run", "/app", "--forever", "--json", hosts=somewhere) as again:
        led = state(again, state="leading")
        with RawClient(somewhere) as client:
            client.delete(led["node"])
        state(again, state="lost", token=led["token"])
        assert state(again, state="leading")["token"] > led["token"]
        assert again.finish(signal.SIGINT) == 0


def test_contender_without_a_command_resigns_on_request(run: Run, somewhere: str) -> None:
    with Command("run", "--forever", "/app", "--id", "one", "--json", hosts=somewhere) as one:
        state(one, state="leading")
        with Command("run", "/app", "--id", "two", "--json", hosts=somewhere) as two:
            state(two, state="following", rank=1)
            assert run("revoke /app") == prints("asked one")
            state(one, state="resigned")
            state(one, state="following", rank=1)
            state(two, state="leading")
            assert run("revoke /app") == prints("asked two")
            state(two, state="resigned")
            assert two.finish() == 0
        state(one, state="leading")


def test_states_as_text() -> None:
    following = CampaignState(Phase.FOLLOWING, 1)
    assert elections._as_text(following, "the \x1bone").endswith(r"Z  the \x1bone waits")
    assert elections._as_text(replace(following, rank=2), "one").endswith("one waits, 2 before it")
    lost = replace(following, phase=Phase.LOST, reason=LossReason.EXPIRED)
    assert elections._as_text(lost, "one").endswith("one has lost: the session expired")


def test_observe_reports_each_leader(hosts: str) -> None:
    with Command("observe", "/app", "--json", hosts=hosts) as observer:
        nobody = state(observer)
        time = datetime.fromisoformat(nobody.pop("time"))
        assert abs(datetime.now(UTC) - time) < timedelta(minutes=1)
        assert nobody == {"leader": None, "token": None, "session": None, "is_current": True}
        script = "echo $AIOLEAD_TOKEN $AIOLEAD_SESSION; exec sleep 100"
        with Command(
            *("run", "--id", "näme", "/app", "--", "sh", "-c", script), hosts=hosts
        ) as leader:
            token, session = leader.out.expect(r"(\d+) (0x\w+)").groups()
            led = state(observer)
            del led["time"]
            known = {"leader": "näme", "token": int(token), "session": session}
            assert led == {**known, "is_current": True}
            leader.signal(signal.SIGTERM)
            assert state(observer)["leader"] is None
        assert observer.finish(signal.SIGTERM) == 0
        assert observer.err.rest() == []


def test_observe_as_text(embedded: str, chroot: str) -> None:
    with Command("observe", chroot, hosts=embedded) as observer:
        observer.out.expect(r"^\d{4}-\d\d-\d\dT[\d:.]+Z  nobody leads$")
        with RawClient(embedded) as client:
            client.create(chroot)
            client.create(f"{chroot}/latch-0000000007", b"me", flags=1)
            observer.out.expect(r"  me leads \(token \d+\)$")
        observer.out.expect("nobody leads")
        assert observer.finish(signal.SIGINT) == 0
