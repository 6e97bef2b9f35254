"""Promises about writes: what a lost link does to them, transactions, fences."""

from __future__ import annotations

from collections.abc import Callable, Collection

from aiolead._wire.codes import OpCode
from aiolead.abc import CoordinationClient, Reply
from aiolead.errors import (
    AioleadError,
    BadVersionError,
    ConnectionLossError,
    Fenced,
    NodeExistsError,
    NoNodeError,
    Outcome,
    TransactionError,
    UsageError,
)
from aiolead.model import CreateMode, SessionState, Stat

from .stage import CREATES, Stage, fails, refuses


async def _is_lost(
    stage: Stage,
    ops: OpCode | Collection[OpCode],
    call: Callable[[CoordinationClient], Reply[object]],
) -> AioleadError:
    """Makes a request of which the server's answer gets lost, with the link."""
    stage.proxy.drop_reply(ops)
    error = await fails(call(stage.client), ConnectionLossError)
    await stage.client.ready()
    await stage.client.sync("/")
    return error


async def a_lost_write_is_never_sent_again(stage: Stage) -> None:
    """It raises `ConnectionLossError` with the outcome `UNKNOWN`, and is applied once at most."""
    client, mode = stage.client, CreateMode.PERSISTENT_SEQUENTIAL
    await client.create("/a")
    error = await _is_lost(stage, CREATES, lambda client: client.create("/a/n-", mode=mode))
    assert error.outcome == Outcome.UNKNOWN, "the outcome of a lost create"
    assert await client.get_children("/a") == ["n-0000000000"], "the children after a lost create"
    error = await _is_lost(stage, OpCode.SET_DATA, lambda client: client.set("/a", b"x"))
    assert error.outcome == Outcome.UNKNOWN, "the outcome of a lost set"
    assert (await client.get("/a"))[1].version == 1, "the version after a lost set"
    path = "/a/n-0000000000"
    error = await _is_lost(stage, OpCode.DELETE, lambda client: client.delete(path))
    assert error.outcome == Outcome.UNKNOWN, "the outcome of a lost delete"


async def a_lost_read_is_sent_again(stage: Stage) -> None:
    """A read whose answer is lost is answered over the next connection."""
    client = stage.client
    await client.create("/a", b"1")
    stage.proxy.drop_reply(OpCode.GET_DATA, count=2)
    assert (await client.get("/a"))[0] == b"1", "the last read"
    stage.proxy.drop_request(OpCode.EXISTS)
    assert await client.exists("/a") is not None, "a read that the server never saw is answered"


async def what_was_not_sent_waits_for_the_link(stage: Stage) -> None:
    """A request that is made without a connection is sent over the next one, in its order."""
    await stage.isolate()
    created, read = stage.client.create("/a", b"1"), stage.client.get("/a")
    assert not created.is_done, "it waits"
    stage.proxy.heal()
    assert (await read)[0] == b"1", "the read after the create"
    await created


async def a_link_that_ends_in_order_is_noticed_at_once(stage: Stage) -> None:
    """A FIN from the server fails what is in flight, and an idle client notices it, too."""
    client = stage.client
    states: list[SessionState] = []
    unsubscribe = client.backend.subscribe(lambda state, _session_id: states.append(state))
    stage.proxy.drop_reply(CREATES, how="fin")
    await fails(client.create("/a"), ConnectionLossError)
    await client.ready()
    del states[:]
    stage.proxy.refuse()
    stage.proxy.fin()
    await stage.eventually(lambda: SessionState.SUSPENDED in states, "an idle client notices it")
    stage.proxy.heal()
    unsubscribe()


async def a_transaction_is_applied_as_a_whole(stage: Stage) -> None:
    """The answer has a path for a create, a `Stat` for a set, None for the rest."""
    client = stage.client
    await client.create("/old")
    transaction = client.transaction()
    transaction.create("/a", b"1").set("/a", b"2").check("/a", version=1).delete("/old")
    path, stat, checked, deleted = await transaction.commit()
    assert (path, checked, deleted) == ("/a", None, None), "the results"
    assert isinstance(stat, Stat), "the result of a set"
    assert stat.version == 1
    refuses(transaction.commit, UsageError)
    assert stage.server.znodes() == ["/a"], "the tree"


async def a_transaction_that_fails_applies_nothing(stage: Stage) -> None:
    """It raises `TransactionError`, which names the operation that failed."""
    client = stage.client
    failing = client.transaction().create("/a").check("/none").create("/b")
    error = await fails(failing.commit(), TransactionError)
    assert isinstance(error, TransactionError)
    assert error.index == 1, "the operation that failed"
    assert isinstance(error.cause, NoNodeError), "the cause is its error"
    assert stage.server.znodes() == [], "the tree"


async def a_lost_transaction_is_never_sent_again(stage: Stage) -> None:
    """Its outcome is `UNKNOWN`."""
    client = stage.client
    await client.create("/a")

    def commit(client: CoordinationClient) -> Reply[object]:
        mode = CreateMode.PERSISTENT_SEQUENTIAL
        return client.transaction().create("/a/n-", mode=mode).commit()

    error = await _is_lost(stage, OpCode.MULTI, commit)
    assert error.outcome == Outcome.UNKNOWN, "the outcome"
    assert await client.get_children("/a") == ["n-0000000000"], "the children"


async def a_check_asks_the_quorum(stage: Stage) -> None:
    """It is a transaction, which a server that is isolated from the others cannot answer."""
    client = stage.client
    before = stage.server.requests["MULTI"]
    await client.create("/a")
    await client.check("/a")
    await client.check("/a", version=0)
    await fails(client.check("/a", version=3), BadVersionError)
    await fails(client.check("/none"), NoNodeError)
    assert stage.server.requests["MULTI"] - before >= 4, "each of them is a transaction"
    await _is_lost(stage, OpCode.MULTI, lambda client: client.check("/a"))


async def fenced_writes_need_their_guard(stage: Stage) -> None:
    """They are applied while the guard exists; then they raise `Fenced`, with nothing applied."""
    client = stage.client
    await client.create("/guard", mode=CreateMode.EPHEMERAL)
    fence = client.fenced("/guard")
    assert await fence.create("/a", b"1") == "/a", "the path of a fenced create"
    assert (await fence.set("/a", b"2")).version == 1, "the version after a fenced set"
    await fails(fence.create("/a"), NodeExistsError)
    assert await fence.transaction().create("/b").commit() == ["/b"]
    await fence.delete("/b")
    await stage.operator.delete("/guard")
    await fails(fence.create("/c"), Fenced)
    await fails(fence.set("/a", b"3"), Fenced)
    await fails(fence.delete("/a"), Fenced)
    await fails(fence.transaction().create("/c").commit(), Fenced)
    assert (await stage.operator.get("/a"))[0] == b"2", "the data after that"
    assert stage.server.znodes() == ["/a"], "the tree after that"


async def a_fence_does_not_outlive_its_session(stage: Stage) -> None:
    """In the next session, or if the guard is known to be gone, it refuses by itself."""
    client = stage.client
    await client.create("/guard")  # it will be there for the next session, too
    known = client.fenced("/guard", gone=lambda: True)
    await fails(known.create("/a"), Fenced)
    fence = client.fenced("/guard")
    await stage.expire()
    await fails(fence.create("/a"), Fenced)
    assert stage.server.znodes() == ["/guard"], "the tree"


async def missing_parents_are_created(stage: Stage) -> None:
    """`ensure_path` creates what is missing, and is content with what is there."""
    for _ in range(2):
        await stage.client.ensure_path("/a/b/c")
    await stage.client.ensure_path("/")
    assert stage.server.znodes() == ["/a", "/a/b", "/a/b/c"], "the tree"
