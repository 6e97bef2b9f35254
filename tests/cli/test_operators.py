"""`aiolead revoke`, `whoami`, `ephemerals`, `sync`, `quota`, `members` and `config`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from kit.checks import until
from kit.cli import Command, Run, fails, kazoo_client, objects, outcome, prints, report, shown

from aiolead.testing import BlockingServer
from aiolead.testing.ensemble import BlockingEnsemble

WORKS = ("sh", "-c", "trap 'echo asked; exit 5' TERM; echo works; while :; do sleep 0.05; done")


@pytest.mark.parametrize("kind", [("run",), ("lock",), ("lock", "-x"), ("lock", "-s")])
def test_command_ends_when_it_is_asked_to_release(
    run: Run, somewhere: str, kind: tuple[str, ...]
) -> None:
    with Command(*kind, "--id", "me", "/app", "--", *WORKS, hosts=somewhere) as holder:
        holder.out.expect("works")
        assert run("revoke /app") == prints("asked me")
        holder.out.expect("asked")
        assert holder.finish() == 5
        what = "leadership of" if kind == ("run",) else "the lock"
        assert any(f"asked to release {what} /app" in line for line in holder.err.rest())
    assert run("revoke /app") == fails("nobody holds /app")


def test_holder_that_does_not_release_is_named(run: Run, somewhere: str) -> None:
    ignores = ("sh", "-c", "trap 'echo ignored' TERM; echo works; while :; do sleep 0.05; done")
    with Command("lock", "--id", "me", "/app", "--", *ignores, hosts=somewhere) as holder:
        holder.out.expect("works")
        assert run("revoke /app") == prints("asked me")
        holder.out.expect("ignored")
        code, _, (said,) = run("revoke /app")
        held, _, remedy = said.partition(" (there for ")
        assert (code, held) == (0, "aiolead: asked before, and still held by me")
        assert remedy.endswith("end its process (see: aiolead revoke --help)")
        assert run("revoke /app --json") == prints()


def test_permit_is_not_asked_back(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere, {"/s/leases/_c_x-lease-": b"one", "/s/locks": b""}):
        remedy = "end its process to free its place"
        assert run("revoke /s") == fails(f"/s: one (permit) cannot be asked to release: {remedy}")


def test_named_successor_leads_after_a_request(run: Run, somewhere: str) -> None:
    def waiting() -> list[str]:
        return [one["identity"] for one in report(run, "contenders /app")]

    def command(name: str) -> Command:
        return Command("run", "--forever", "--id", name, "/app", "--", *WORKS, hosts=somewhere)

    with command("old") as old:
        old.out.expect("works")
        with command("other"):
            until(lambda: len(waiting()) == 2, "the other one waits")
            with command("new") as new:
                until(lambda: len(waiting()) == 3, "the new one waits")
                assert run("revoke /app --successor new") == prints("asked old")
                old.out.expect("asked")
                new.out.expect("works")
                assert run("revoke /app --successor new")[0] == 0
                late = "/app: no successor was ready within 0 seconds: no contender 'typo' waits"
                assert run("revoke /app --successor typo --wait 0") == fails(late)
                code, _, said = run("revoke /app --successor typo --wait 0.1")
                assert said[0].startswith("aiolead: no contender typo yet (there are: new, other")
                assert said[0].endswith("): waiting 0.1 s for it")
                assert code == 1
    with Command("lock", "/l", "--", *WORKS, hosts=somewhere) as holder:
        holder.out.expect("works")
        assert run("revoke /l --successor new") == fails("--successor: /l is no election", code=2)


def test_forever_contends_again_after_a_request(run: Run, somewhere: str) -> None:
    with Command("run", "--forever", "/app", "--", *WORKS, hosts=somewhere) as holder:
        holder.out.expect("works")
        assert run("revoke /app")[0] == 0
        holder.out.expect("asked")
        holder.out.expect("works")


def test_holder_of_another_library_is_asked(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere, {"/l/x__lock__-": b"other"}) as client:
        (asked,) = report(run, "revoke /l")
        assert asked["identity"] == "other"
        assert client.get(asked["path"])[0].startswith(b"__REVOKE__")


def test_whoami_and_sync(run: Run, hosts: str) -> None:
    run("create / -p")
    assert shown(run, "sync") == []
    lines = shown(run, "whoami", "--auth", "digest:me:secret")
    assert "digest:me" in lines
    assert any(line.startswith("ip:127.0.0.1") for line in lines)


def test_ephemerals_of_all_sessions(run: Run, hosts: str) -> None:
    with kazoo_client(hosts, {"/here/a-": b"", "/there/b-": b""}) as client:
        owner = hex(client.client_id[0])
        assert shown(run, "ephemerals /here") == [f"{owner}  /here/a-0000000000"]
        assert len(report(run, "ephemerals")) == 2
        assert len(report(run, "ephemerals --session", owner)) == 2
        assert shown(run, "ephemerals --session 0x1") == []
        assert run("ephemerals --limit 2") == fails("more than 2 znodes (--limit)")


@pytest.fixture(scope="module")
def three_members(zookeeper_installed: None) -> Iterator[BlockingEnsemble]:
    with BlockingEnsemble(3, reconfigurable=True) as ensemble:
        yield ensemble


@pytest.mark.exhaustive("reconfig by the library is tried elsewhere")
def test_members_are_removed_and_added(run: Run, three_members: BlockingEnsemble) -> None:
    hosts = three_members.connect_string
    before = shown(run, "members -q", hosts=hosts)
    number = next(n for n, each in enumerate(three_members.servers, 1) if not _leads(each))
    (removed,) = (line for line in before if line.startswith(f"server.{number}="))
    after = shown(run, "members -q --remove", str(number), hosts=hosts)
    assert after == [line for line in before if line != removed]
    (found,) = report(run, "members", hosts=hosts)
    why = "the znode has another version: /zookeeper/config"
    other = str(number % 3 + 1)
    assert run("members --version 3 --remove", other, hosts=hosts) == fails(why)
    why = f"--remove: there is no server {number}"
    assert run("members --remove", str(number), hosts=hosts) == fails(why, code=2)
    # It still follows, without a vote.
    (state,) = report(run, "ensemble --admin-port 0", hosts=hosts)
    assert (state["voters"], state["up"], state["tolerates"]) == (2, 2, 0)
    # As zkCli.sh prints it.
    version = f"{found['version']:#x}"
    assert run("members", hosts=hosts)[2] == [f"aiolead: the configuration has version {version}"]
    back = shown(run, "members -q --version", version, "--add", removed, hosts=hosts)
    assert sorted(back) == before
    (state,) = report(run, "ensemble --admin-port 0", hosts=hosts)
    assert (state["voters"], state["up"], state["tolerates"]) == (3, 3, 1)
    for add in ("server.4=zk4:1:2", "server.4"):
        code, _, (error,) = run("members --add", add, hosts=hosts)
        assert (code, "client port" in error or "--add" in error) in ((1, True), (2, True))


def _leads(server: BlockingServer) -> bool:
    return "Mode: leader" in server.four_letter("srvr")


def test_quota_is_set_shown_and_deleted(run: Run, hosts: str) -> None:
    run("create /app x -p")
    assert shown(run, "quota /app") == ["no quota"]
    assert shown(run, "quota /app --count 10 --bytes-hard 1000") == [
        "count: 1, soft limit 10, hard limit unlimited",
        "bytes: 1, soft limit unlimited, hard limit 1,000",
    ]
    (found,) = report(run, "quota /app")
    assert (found["count"], found["count_limit"], found["bytes_hard"]) == (1, 10, 1000)
    # Other limits stay, and what exceeds one is reported.
    code, out, err = run("quota /app --count 0 --count-hard 0")
    assert (code, out) == (
        0,
        [
            "count: 1, soft limit 0, hard limit 0",
            "bytes: 1, soft limit unlimited, hard limit 1,000",
        ],
    )
    why = "it did before, or the servers do not enforce quotas (enforceQuota)"
    assert err == [
        "aiolead: count exceeds its soft limit",
        f"aiolead: count exceeds its hard limit: {why}",
    ]
    assert shown(run, "quota /app --delete") == ["no quota"]
    assert run("quota /app --delete --count 3")[0] == 2


def test_mistyped_paths_and_sessions_are_reported(run: Run, somewhere: str) -> None:
    run("create / -p")
    assert run("quota /typo") == fails("no such znode: /typo")
    nothing = "no configuration was published at /typo"
    assert run("config get /typo") == prints(err=nothing)
    assert run("config history /typo") == prints(err=nothing)
    wanted = "must be as in 0x1000a3b5c7d0003, not 'typo'"
    assert run("ephemerals --session typo") == fails(f"--session: {wanted}", code=2)
    assert run("ephemerals --session 0X1A") == prints()


def test_members_of_a_standalone_server(run: Run, somewhere: str) -> None:
    assert run("members") == (0, [], ["aiolead: the servers have no configuration of an ensemble"])
    assert run("members --remove 3") == fails("reconfiguration is switched off: /zookeeper/config")


def test_config_is_published_and_rolled_back(run: Run, hosts: str) -> None:
    run("create / -p")
    assert shown(run, "config set /settings colour=red limit=10") == ["version 1"]
    assert shown(run, "config set /settings colour=blue --unset limit") == ["version 2"]
    assert shown(run, "config get /settings") == ["colour = blue"]
    assert outcome("config", "get", "/settings", "colour", hosts=hosts) == (0, ["blue"], [])
    assert run("config get /settings limit") == fails("/settings: there is no key limit")
    history = shown(run, "config history /settings")
    assert [re.sub("  .*  ", " ", line) for line in history] == ["2 1 key", "1 2 keys"]
    assert shown(run, "config rollback /settings 1") == ["version 3"]
    (found,) = report(run, "config get /settings")
    assert found["keys"]["limit"]["data"] == "10"
    assert run("config set /settings nothing")[0] == 2
    assert run("config set /settings a=b --version 1")[0] == 1
    assert objects(run("config get /settings --json")[1])[0]["version"] == 3
