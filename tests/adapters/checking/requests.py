"""Promises about requests and their answers."""

from __future__ import annotations

import anyio

from aiolead.errors import (
    BadVersionError,
    ConfigurationError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from aiolead.model import Created, CreateMode

from .stage import CREATES, Stage, fails, refuses


async def requests_are_applied_in_the_order_of_the_calls(stage: Stage) -> None:
    """Requests that are made without an await between them are applied in that order."""
    client = stage.client
    created = client.create("/a")
    there = client.exists("/a")
    changed = client.set("/a", b"1")
    read = client.get("/a")
    deleted = client.delete("/a")
    gone = client.exists("/a")
    # In another order than they were made in, as a caller may.
    assert await gone is None, "exists, after the delete"
    data, stat = await read
    assert (data, stat.version) == (b"1", 1), "the result of get, between set and delete"
    assert await there is not None, "exists, after the create, shows the znode"
    assert (await changed).version == 1, "the version after the set"
    assert (await created).path == "/a", "the path of the create"
    await deleted


async def answers_come_in_the_order_of_the_calls(stage: Stage) -> None:
    """Done-callbacks are called in the order in which the requests were made."""
    order: list[int] = []
    replies = [stage.client.exists("/") for _ in range(20)]
    for number, reply in enumerate(replies):
        reply.add_done_callback(lambda number=number: order.append(number))  # type: ignore[misc]
    for reply in reversed(replies):
        await reply
    assert order == list(range(20)), "the order of the answers"


async def a_call_hands_its_request_over(stage: Stage) -> None:
    """A request is sent even if nobody ever awaits its answer."""
    stage.client.create("/a")
    await stage.eventually(lambda: "/a" in stage.server.znodes(), "the znode is created")


async def a_reply_can_be_awaited_again(stage: Stage) -> None:
    """A reply is awaited any number of times, by several tasks, for its answer or its error."""
    created, refused = stage.client.create("/a"), stage.client.delete("/none")
    answers: list[Created] = []

    async def wait() -> None:
        answers.append(await created)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(wait)
    assert [answer.path for answer in answers] == ["/a"] * 3, "the results of all of them"
    for _ in range(2):
        await fails(refused, NoNodeError)


async def a_reply_tells_whether_it_is_done(stage: Stage) -> None:
    """`is_done`, `result`, `error` and a late callback say what awaiting would."""
    held = stage.proxy.hold_reply(CREATES)
    created, refused = stage.client.create("/a"), stage.client.delete("/none")
    await held.wait()
    assert not created.is_done, "a reply without an answer is not done"
    held.release()
    await created
    await fails(refused, NoNodeError)
    assert (created.is_done, refused.is_done) == (True, True), "the awaited request is done"
    assert created.result().path == "/a", "result()"
    assert created.error() is None, "error() of an answer"
    assert isinstance(refused.error(), NoNodeError), "error() gives the error"
    refuses(refused.result, NoNodeError)
    called: list[bool] = []
    created.add_done_callback(lambda: called.append(True))
    assert called == [True], "a callback that is added late is called at once"


async def cancelling_a_wait_abandons_the_answer_alone(stage: Stage) -> None:
    """A caller that is cancelled leaves the request, which is applied, and all others."""
    held = stage.proxy.hold_reply(CREATES)
    created = stage.client.create("/a")
    after = stage.client.exists("/a")

    async def wait() -> None:
        await created

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await held.wait()
        tasks.cancel_scope.cancel()
    held.release()
    assert await after is not None, "the next request has its own answer"
    assert (await created).path == "/a", "the answer, awaited again"


async def bad_arguments_are_refused_at_the_call(stage: Stage) -> None:
    """Invalid arguments raise `ConfigurationError` at the call, and are not sent."""
    client = stage.client
    before = stage.server.znodes()
    refuses(lambda: client.get("no-slash"), ConfigurationError)
    refuses(lambda: client.exists("/a//b"), ConfigurationError)
    refuses(lambda: client.delete("/"), ConfigurationError)
    refuses(lambda: client.create("/a", "text"), ConfigurationError)  # type: ignore[arg-type]
    refuses(lambda: client.create("/a", mode="ephemeral"), ConfigurationError)  # type: ignore[arg-type]
    refuses(lambda: client.create("/a", acl=[]), ConfigurationError)
    refuses(lambda: client.set("/a", b"", version=-(2**31) - 1), ConfigurationError)
    refuses(lambda: client.transaction().commit(), ConfigurationError)
    await client.exists("/")
    assert stage.server.znodes() == before, "the tree"


async def errors_have_the_names_of_the_servers(stage: Stage) -> None:
    """The refusal of a server is raised as the `ServerError` of that name."""
    client = stage.client
    await client.create("/a")
    await client.create("/a/b", mode=CreateMode.EPHEMERAL)
    await fails(client.create("/a"), NodeExistsError)
    await fails(client.create("/none/child"), NoNodeError)
    await fails(client.create("/a/b/c"), NoChildrenForEphemeralsError)
    await fails(client.delete("/none"), NoNodeError)
    await fails(client.delete("/a"), NotEmptyError)
    await fails(client.delete("/a/b", version=7), BadVersionError)
    await fails(client.get("/none"), NoNodeError)
    await fails(client.get_children("/none"), NoNodeError)
    await fails(client.set("/none", b""), NoNodeError)
    await fails(client.set("/a", b"", version=7), BadVersionError)
    assert await client.exists("/none") is None, "exists, for what is not there"


async def a_create_tells_what_was_created(stage: Stage) -> None:
    """The answer has the path that the server has made, and the `Stat` of that znode."""
    client = stage.client
    await client.create("/a", b"data")
    first = await client.create("/a/n-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
    second = await client.create("/a/n-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
    assert first.path == "/a/n-0000000000", "the path of the first one"
    assert second.path == "/a/n-0000000001", "the path of the second one"
    assert first.stat.ephemeral_owner == client.session_id, "the owner of an ephemeral znode"
    assert second.stat.czxid > first.stat.czxid > 0, "later znodes have higher czxids"
    names = await client.get_children("/a")
    assert sorted(names) == ["n-0000000000", "n-0000000001"], "the children"
    data, stat = await client.get("/a")
    assert (data, stat.num_children) == (b"data", 2), "the parent"


async def sync_is_answered(stage: Stage) -> None:
    """After `sync` a read shows what others have written before."""
    await stage.operator.create("/a", b"1")
    caught_up, read = stage.client.sync("/a"), stage.client.get("/a")
    await caught_up
    assert (await read)[0] == b"1", "the data of the earlier write"
