"""`aiolead observe`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from kit.cli import WITHIN, Command, environment, without_notice
from kit.raw_client import RawClient


def state(command: Command) -> dict[str, Any]:
    return json.loads(command.out.expect(r"^\{.*\}$")[0])


def test_each_change_is_an_object(hosts: str) -> None:
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
            assert led == {
                "leader": "näme",
                "token": int(token),
                "session": session,
                "is_current": True,
            }
            leader.signal(signal.SIGTERM)
            assert state(observer)["leader"] is None
        observer.signal(signal.SIGTERM)
        assert observer.finish() == 0
        assert observer.err.rest() == []


def test_as_text(embedded: str, chroot: str) -> None:
    with Command("observe", chroot, hosts=embedded) as observer:
        observer.out.expect(r"^\d{4}-\d\d-\d\dT[\d:.]+Z  nobody leads$")
        with RawClient(embedded) as client:
            client.create(chroot)
            client.create(f"{chroot}/latch-0000000007", b"me", flags=1)
            observer.out.expect(r"  me leads \(token \d+\)$")
        observer.out.expect("nobody leads")
        observer.signal(signal.SIGINT)
        assert observer.finish() == 0


def test_whoever_reads_goes_away(embedded: str, chroot: str) -> None:
    """As `aiolead observe ... | head -1` does."""
    reader, writer = os.pipe()
    observer = subprocess.Popen(
        [sys.executable, "-m", "aiolead", "observe", chroot],
        env=environment(AIOLEAD_HOSTS=embedded),
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert b"nobody leads" in os.read(reader, 4096)
    os.close(reader)
    with RawClient(embedded) as client:
        client.create(chroot)
        client.create(f"{chroot}/latch-0000000007", b"me", flags=1)
        said = observer.communicate(timeout=WITHIN)[1].decode()
        assert without_notice(said.splitlines()) == []
    assert observer.returncode == 128 + signal.SIGPIPE
