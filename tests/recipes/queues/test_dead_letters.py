"""Items that move to a queue of dead letters after their last attempt: on virtual time."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from kit.clients import PATIENCE, Link, catch_up, contenders_left, joined
from kit.virtual_time import SESSION, Drop, lost_message, passes, with_virtual_server
from recipes.blocks import enter

from aiolead import (
    ACL,
    Client,
    CreateMode,
    DelayQueue,
    PriorityQueue,
    Queue,
    TaskBoard,
)
from aiolead._recipes import attempts
from aiolead._recipes.attempts import MAX_REASON
from aiolead._recipes.queue_items import encode
from aiolead.errors import ClaimLost, ConfigurationError, InvalidDataError
from aiolead.events import Event, EventName
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer, OpCode
from aiolead.types import DeadLetter, QueueItem, TaskPhase

pytestmark = pytest.mark.timeout(60)

PATH, CLAIMS, DEAD = "/jobs", "/jobs-claims", "/jobs-dead"
ITEM = f"{PATH}/queue-0000000000"


def limited(client: Client, most: int = 2) -> Queue:
    return Queue(client, PATH, max_attempts=most, dead_letters=DEAD, retry_pause=0)


async def fail(queue: Queue) -> None:
    """One attempt, which an exception ends."""
    with pytest.raises(ZeroDivisionError):
        async with queue.get(timeout=SESSION):
            raise ZeroDivisionError("no such account")


async def hand_out(queue: Queue) -> None:
    """Wait for an item that no consumer may get."""
    await enter(queue.get())
    pytest.fail("it was handed out")


async def letters(client: Client) -> list[tuple[bytes, DeadLetter | None]]:
    """All dead letters, with what they say; they are acknowledged."""
    found: list[tuple[bytes, DeadLetter | None]] = []
    queue = Queue(client, DEAD)
    while True:
        async with queue.try_get() as item:
            if item is None:
                return found
            found.append((item.data, item.dead_letter))
            await item.ack()


def left(server: EmbeddedServer) -> tuple[int, int, int]:
    """How many items, claims and dead letters there are."""
    items, claims, dead = (len(contenders_left(server, path)) for path in (PATH, CLAIMS, DEAD))
    return items, claims, dead


async def test_item_and_task_are_given_up_on_every_server(a: Client, b: Client) -> None:
    """By the consumer of the last attempt, and by one that finds the attempts used up."""
    await Queue(a, PATH).put_many([b"0", b"1"])
    for client in (a, b):
        await catch_up(client)  # it sees that the claim of the one before is gone
        await fail(limited(client))
    await catch_up(b)
    async with Queue(b, PATH).get(timeout=SESSION) as item:  # it knows of no limit
        assert (item.data, item.attempts) == (b"1", 1)
        await item.retry(delay=0)
    for _ in range(2):
        async with Queue(b, PATH).get(timeout=SESSION) as item:
            await item.retry(delay=0)
    await catch_up(a)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hand_out, limited(a))
        await joined(b, DEAD, 2)
        tasks.cancel_scope.cancel()
    found = await letters(a)
    assert [data for data, _ in found] == [b"0", b"1"]
    assert [letter.attempts for _, letter in found if letter is not None] == [2, 4]
    board = TaskBoard(a, "/board", max_attempts=1)
    task = await board.submit(b"x")
    await enter(board.claim())
    with anyio.fail_after(PATIENCE):
        assert (await board.result(task)).is_failed


# --- the last attempt ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["raise", "leave", "cancel", "retry", "release", "next", "ack"])
@with_virtual_server
async def test_item_moves_as_its_last_attempt_ends(
    server: EmbeddedServer, client: Client, way: str
) -> None:
    queue = limited(client)
    await queue.put(b"x")
    await fail(queue)
    assert left(server) == (1, 0, 0)

    async def body(item: QueueItem) -> None:
        assert item.attempts == 2
        match way:
            case "raise":
                raise ZeroDivisionError("no such account")
            case "cancel":
                await anyio.sleep_forever()
            case "retry":
                await item.retry(reason="no such account")
            case "release":
                await item.release()
            case "ack":
                await item.ack()
            case _:
                pass

    with anyio.move_on_after(1.0):
        try:
            if way == "next":
                async with queue.consume() as items:
                    async for item in items:
                        await body(item)
            else:
                async with queue.get() as item:
                    await body(item)
        except ZeroDivisionError:
            assert way == "raise"
    if way == "ack":
        assert left(server) == (0, 0, 0)
        return
    assert left(server) == (0, 0, 1)
    ((data, letter),) = await letters(client)
    assert data == b"x"
    assert letter is not None
    assert (letter.item, letter.attempts) == (ITEM, 2)
    assert letter.reason.startswith(
        {
            "raise": "ZeroDivisionError: no such account",
            "cancel": "the body was cancelled",
            "retry": "no such account",
            "release": "it was released",
        }.get(way, "the body ended without")
    )


@pytest.mark.parametrize("kind", [PriorityQueue, DelayQueue])
@with_virtual_server
async def test_every_queue_has_dead_letters(
    client: Client, kind: type[PriorityQueue | DelayQueue]
) -> None:
    """They are items of a plain queue."""
    queue = kind(client, PATH, max_attempts=1, dead_letters=DEAD)
    if isinstance(queue, DelayQueue):
        await queue.put(b"x", delay=0)
    else:
        await queue.put(b"x", priority=3)
    await enter(queue.get())
    ((data, _),) = await letters(client)
    assert data == b"x"


@with_virtual_server
async def test_item_whose_last_consumer_died_is_not_handed_out_again(
    server: EmbeddedServer, link: Link, client: Client, other: Client
) -> None:
    """The next consumer moves it, and gets the next item."""
    await limited(other).put_many([b"0", b"1"])
    await fail(limited(client))
    with pytest.raises(ClaimLost):
        async with limited(client).get():
            link.down()
            await anyio.sleep_forever()
    await passes(2 * SESSION)
    async with limited(other).get() as item:
        assert item.data == b"1"
        assert left(server) == (1, 1, 1)
    link.heal()
    ((data, letter),) = await letters(other)
    assert data == b"0"
    assert letter == DeadLetter(ITEM, 3, "the consumer of the last attempt died, or lost its claim")


@with_virtual_server
async def test_dead_letter_can_die_again_and_keeps_its_parts(client: Client) -> None:
    """The latest reason counts."""
    await client.create(PATH)
    data = encode([b"a", b"b"]) + b"what is this?"
    await client.create(f"{PATH}/queue-", data, mode=CreateMode.PERSISTENT_SEQUENTIAL)
    await enter(limited(client, most=1).get())
    queue = Queue(client, DEAD, max_attempts=1, dead_letters="/deader")
    async with queue.get() as item:
        assert item.parts == (b"a", b"b")
        await item.retry(reason="once more")
    async with Queue(client, "/deader").get() as item:
        assert item.parts == (b"a", b"b")
        assert item.dead_letter == DeadLetter(f"{DEAD}/queue-0000000000", 1, "once more")


@pytest.mark.parametrize(
    "rest",
    [b"", b"?", b"[]", b"{}", b'{"item":"/a","attempts":true,"reason":""}', b'{"item":1}', b"\xff"],
)
@with_virtual_server
async def test_item_with_other_bytes_behind_its_end_is_no_dead_letter(
    client: Client, rest: bytes
) -> None:
    await client.create(PATH)
    mode = CreateMode.PERSISTENT_SEQUENTIAL
    await client.create(f"{PATH}/queue-", encode([b"x"]) + rest, mode=mode)
    async with Queue(client, PATH).get() as item:
        assert (item.data, item.dead_letter) == (b"x", None)


@with_virtual_server
async def test_exception_that_cannot_be_printed_is_a_reason(client: Client) -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    queue = limited(client, most=1)
    await queue.put(b"x")
    with pytest.raises(Unprintable):
        async with queue.get():
            raise Unprintable
    ((data, letter),) = await letters(client)
    assert data == b"x"
    assert letter is not None
    assert "Unprintable" in letter.reason


@pytest.mark.parametrize("reason", ["é" * 2000, "\ud800", "\0\n\x1b[2J"])
@with_virtual_server
async def test_any_reason_fits_into_a_dead_letter(client: Client, reason: str) -> None:
    queue = limited(client, most=1)
    await queue.put(b"x")
    async with queue.get() as item:
        await item.retry(reason=reason)
    ((_, letter),) = await letters(client)
    assert letter is not None
    assert len(letter.reason.encode()) <= MAX_REASON
    assert letter.reason[:4] == reason.encode(errors="replace").decode()[:4]


# --- invalid items -------------------------------------------------------------------------------


@with_virtual_server
async def test_invalid_item_moves_after_its_last_attempt(
    server: EmbeddedServer, client: Client
) -> None:
    """Each attempt is reported; without a limit the item is passed over for good."""
    await client.create(PATH)
    await client.create(f"{PATH}/queue-", b"!", mode=CreateMode.PERSISTENT_SEQUENTIAL)
    told: list[InvalidDataError] = []
    queue = Queue(
        client,
        PATH,
        max_attempts=4,
        dead_letters=DEAD,
        retry_pause=1.0,
        on_invalid=told.append,
    )
    with anyio.move_on_after(100.0):
        await enter(queue.get())
    assert len(told) == 3
    assert left(server) == (0, 0, 1)
    ((data, letter),) = await letters(client)
    assert data == b"!"
    assert letter is not None
    assert letter.reason == "invalid: 1 bytes are too few for an item"


# --- faults --------------------------------------------------------------------------------------


@lost_message
@pytest.mark.parametrize("which", [0, 1], ids=["the claim", "the move"])
@with_virtual_server
async def test_lost_move_by_the_next_consumer_moves_the_item_once(
    server: EmbeddedServer, client: Client, other: Client, drop: Drop, which: int
) -> None:
    queue = limited(client, most=1)
    await queue.put(b"x")
    async with Queue(other, PATH).get() as item:  # it knows of no limit
        await item.retry(delay=0)

    async def lose() -> None:
        before = server.requests["MULTI"]
        while server.requests["MULTI"] < before + which:
            await anyio.lowlevel.checkpoint()
        drop(server, OpCode.MULTI)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lose)
        with anyio.move_on_after(3 * SESSION):
            await hand_out(queue)
        tasks.cancel_scope.cancel()
    assert left(server) == (0, 0, 1)


@with_virtual_server
async def test_move_that_takes_too_long_is_left_to_the_next_consumer(
    server: EmbeddedServer, link: Link, client: Client, other: Client
) -> None:
    """Leaving waits for a third of the session timeout, and does not raise the delay."""
    await limited(client, most=1).put(b"x")
    async with limited(client, most=1).get():
        link.stall("to_client")
        began = anyio.current_time()
    assert anyio.current_time() - began < SESSION
    link.heal()
    await passes(3 * SESSION)
    with anyio.move_on_after(3 * SESSION):
        await hand_out(limited(other, most=1))
    assert left(server) == (0, 0, 1)


@pytest.mark.parametrize("why", ["closed", "full"])
@with_virtual_server
async def test_item_stays_while_the_dead_letters_refuse_it(
    server: EmbeddedServer,
    client: Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    """It is not handed out meanwhile, and moves once they do not."""
    if why == "closed":
        await client.create(DEAD, acl=[ACL.world(Permission.READ)])
    else:
        monkeypatch.setattr(attempts, "MOST_ITEMS", 1)
        await Queue(client, DEAD).put(b"the first one")
    queue = Queue(client, PATH, max_attempts=1, dead_letters=DEAD, retry_pause=1.0)
    await queue.put(b"x")
    await enter(queue.get())
    before = server.requests["MULTI"]
    with anyio.move_on_after(60.0):
        await hand_out(queue)
    assert server.requests["MULTI"] - before < 30
    lines = [line for line in caplog.messages if "cannot be given up" in line]
    assert len(lines) == 1
    assert ("has 1 items" if why == "full" else "not allowed by") in lines[0]
    if why == "full":
        async with Queue(client, DEAD).get() as letter:
            await letter.ack()
    else:
        await client.delete(DEAD)
    with anyio.move_on_after(100.0):
        await hand_out(queue)
    assert left(server) == (0, 0, 1)


@with_virtual_server
async def test_item_with_znodes_below_is_set_aside_rather_than_moved(
    server: EmbeddedServer, client: Client, other: Client
) -> None:
    """At the claim; at the end of the last attempt it moves, and its claim stays."""
    queue = limited(client, most=1)
    await queue.put(b"x")
    async with Queue(other, PATH).get() as item:
        await item.retry(delay=0)
    await other.create(f"{ITEM}/below")
    async with queue.try_get() as nothing:
        assert nothing is None
    assert left(server) == (2, 0, 0)
    await other.delete(f"{ITEM}/below")
    await passes(1.0)
    async with queue.try_get() as nothing:
        assert nothing is None
    assert left(server) == (0, 0, 1)
    await queue.put(b"y")
    async with queue.get() as item:
        await other.create(f"{PATH}/{item.name}/below")
    assert left(server) == (2, 1, 2)


# --- task boards ---------------------------------------------------------------------------------


@pytest.mark.parametrize("has_letters", [True, False])
@with_virtual_server
async def test_task_fails_after_its_last_attempt(
    server: EmbeddedServer, link: Link, client: Client, other: Client, has_letters: bool
) -> None:
    """As the attempt ends, or by the next worker if the last one died. `result` returns."""
    dead = DEAD if has_letters else None
    boards = [
        TaskBoard(each, "/board", identity=name, max_attempts=1, dead_letters=dead)
        for each, name in ((client, "a"), (other, "b"))
    ]
    first, second = [await boards[1].submit(data) for data in (b"0", b"1")]
    with pytest.raises(ZeroDivisionError):
        async with boards[0].claim():
            raise ZeroDivisionError("no such account")
    result = await boards[1].result(first)
    assert (result.is_failed, result.worker, result.data) == (True, "a", b"")
    assert result.note == "given up after 1 attempts: ZeroDivisionError: no such account"
    with pytest.raises(ClaimLost):
        async with boards[0].claim():
            link.down()
            await anyio.sleep_forever()
    with anyio.move_on_after(2 * SESSION):
        await enter(boards[1].claim())
        pytest.fail("it was handed out")
    result = await boards[1].result(second)
    assert (result.is_failed, result.worker) == (True, "b")
    async with boards[1].observe() as view:
        assert [state.phase for state in view.value.values()] == [TaskPhase.FAILED] * 2
    link.heal()
    if has_letters:
        assert [data for data, _ in await letters(other)] == [b"0", b"1"]
    assert contenders_left(server, "/board/claims") == []


# --- events and arguments ------------------------------------------------------------------------


@with_virtual_server
async def test_events_tell_retries_and_the_end(link: Link) -> None:
    events: list[Event] = []
    async with link.connect(on_event=events.append) as client:
        queue = limited(client)
        await queue.put(b"x")
        for _ in range(2):
            await fail(queue)
    names = (EventName.ITEM_RETRIED, EventName.ITEM_GIVEN_UP)
    seen = [event for event in events if event.name in names]
    assert [event.name for event in seen] == list(names)
    for number, event in enumerate(seen, 1):
        fields = event.fields
        assert (event.path, fields["item"], fields["attempt"]) == (PATH, ITEM[6:], number)
    ends = [e.fields["reason"] for e in events if e.name is EventName.TENURE_ENDED]
    assert ends == ["released", "given up"]


@with_virtual_server
async def test_reason_that_is_no_text_is_refused(client: Client) -> None:
    queue = limited(client)
    await queue.put(b"x")
    async with queue.get() as item:
        with pytest.raises(ConfigurationError, match="reason"):
            await item.retry(reason=b"x")  # type: ignore[arg-type]
