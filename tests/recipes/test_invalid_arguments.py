"""Arguments that recipes refuse with the name of the argument, before they send anything."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kit.clients import in_memory
from kit.every_recipe import RECIPES, Recipe

import aiolead
from aiolead import Client
from aiolead.errors import ConfigurationError
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec, Layout, ServiceType

PATH = "/app/here"
ITEMS = ["one", "two"]
WEB = aiolead.ServiceInstance(name="web", id="1", address="10.0.0.7", port=80)
INT = Codec.int32()
AIOZK = Layout.AIOZK
COUNTS: list[Any] = [0, -1, True, 1.5, 2**31]
BAD_KEYS: list[Any] = ["", "x" * 257, "é" * 129, "\ud800", b"x", None, 3]
DEAD = "/app/dead"

Call = Callable[[Client], object]
Row = tuple[Call, str]


def each(
    recipe: Any, options: Iterable[dict[str, Any]], *, says: str = "", **others: Any
) -> list[Row]:
    """One row for each keyword argument that a recipe is made with."""
    return [
        (
            lambda c, given=given: recipe(c, **{"path": PATH, **others, **given}),
            next(iter(given)) + says,
        )
        for given in options
    ]


def queue(c: Client) -> Any:
    return aiolead.Queue(c, PATH)


def election(c: Client, **options: Any) -> Any:
    return aiolead.Election(c, PATH, **options)


async def work(_term: object) -> None:
    raise AssertionError("it leads")


def register(instance: Any, **options: Any) -> Call:
    return lambda c: aiolead.ServiceRegistry(c, PATH).register(instance, **options)


def publish(changes: Any) -> Call:
    return lambda c: aiolead.Config(c, PATH).publish(changes)


def share(value: Any, **options: Any) -> Row:
    def call(c: Client) -> object:
        return aiolead.SharedValue(c, PATH, **options).set(value)

    return call, r"value: must be (bytes|an? \w+), not "


ROWS: dict[str, list[Row]] = {
    "Election": [
        *each(
            aiolead.Election,
            [{"changing_from": n} for n in (0, -1, 1001, 1.0, "2", True)],
            says=": must be from 1 to 1000",
        ),
        *each(
            aiolead.Election,
            [{"on_revocation": "keep"}],
            says=": must be 'ignore' or 'resign', not 'keep'",
        ),
        *each(
            aiolead.Election,
            [{"revocation_grace": grace} for grace in (-1, "long")],
            says=": must be a number of 0 or more",
        ),
        *each(
            aiolead.Election,
            [{"priority": n} for n in (-1001, 1001, 1.0, "2", True)],
            says=": must be from -1000 to 1000",
        ),
        *each(
            aiolead.Election,
            [{"stable_for": n} for n in (0, 0.9, -1, "2", None, True, float("nan"))],
            says=": must be a number of 1 or more",
            priority=1,
        ),
        *each(
            aiolead.Election,
            [{"priority": 1, "leaders": 2}, {"priority": 1, "changing_from": 2}],
            says=": needs leaders=1",
        ),
        (lambda c: election(c, changing_from=2, layout=AIOZK), r"leaders: .*Layout\.AIOZK"),
        (lambda c: election(c, priority=1, layout=AIOZK), r"priority: .*Layout\.AIOZK"),
        *(
            (lambda c, pause=pause: election(c).run(work, pause=pause), "pause: must be seconds")
            for pause in (-1, float("nan"), float("inf"), True, "1", None)
        ),
        *(
            (lambda c, successor=successor: election(c).revoke(successor=successor), "successor: ")
            for successor in ("", 7, "x" * 5000)
        ),
    ],
    "Semaphore": [
        *each(aiolead.Semaphore, [{"limit": n} for n in COUNTS]),
        *each(aiolead.Semaphore, [{"follow_limit": wrong} for wrong in (1, None, "yes")], limit=1),
        *((lambda c, n=n: aiolead.Semaphore(c, PATH, 1).set_limit(n), "limit: ") for n in COUNTS),
        *(
            (lambda c, n=n: aiolead.Semaphore(c, PATH, 1).acquire(permits=n), "permits: ")
            for n in COUNTS
        ),
        *(
            (lambda c, n=n: aiolead.Semaphore(c, PATH, 1).try_acquire(permits=n), "permits: ")
            for n in COUNTS
        ),
    ],
    "UniqueNames": [
        *(
            (lambda c, name=name: aiolead.UniqueNames(c, PATH).claim(name), "kind: ")
            for name in ("", "a/b", "a\0", 1)
        ),
        (lambda c: aiolead.UniqueNames(c, PATH).claim("n", most=0), "most: "),
        (lambda c: aiolead.UniqueNames(c, PATH).claim("n", timeout=-1), "timeout: "),
    ],
    "Once": [
        *each(aiolead.Once, [{"ttl": ttl} for ttl in (0, -1, float("nan"), "1", True)]),
        *each(aiolead.Once, [{"keep": keep} for keep in (0, -1, 20_001, 1.5, True, None)]),
        *each(aiolead.Once, [{"path": "/"}, {"acl": []}]),
        *((lambda c, key=key: aiolead.Once(c, PATH).claim(key), "key: ") for key in BAD_KEYS),
        *((lambda c, key=key: aiolead.Once(c, PATH).try_claim(key), "key: ") for key in BAD_KEYS),
    ],
    "DoubleBarrier": [
        *each(aiolead.DoubleBarrier, [{"path": "/"}], count=2),
        *each(aiolead.DoubleBarrier, [{"count": n} for n in (0, -1, True, 1.5)]),
    ],
    "Queue": [
        (lambda c: aiolead.Queue(c, PATH, claims=PATH), "claims"),
        (lambda c: aiolead.Queue(c, PATH, claims="/"), "path: the root"),
        *each(aiolead.Queue, [{"max_items": 0}, {"max_items": 25_001}]),
        *each(aiolead.Queue, [{"max_attempts": 2}]),
        *each(
            aiolead.Queue, [{"dead_letters": at} for at in (PATH, f"{PATH}-claims")], max_attempts=2
        ),
        *each(aiolead.Queue, [{"dead_letters": DEAD}]),
        *each(aiolead.Queue, [{"max_attempts": 0}], dead_letters=DEAD),
        (lambda c: aiolead.Queue(c, PATH, max_attempts=2, dead_letters="x"), "path"),
        (lambda c: aiolead.Queue(c, PATH, max_attempts=2, dead_letters="/"), "path"),
        (lambda c: queue(c).put("x"), "data"),
        *((lambda c, given=given: queue(c).put_many(given), "items") for given in (None, 5, "x")),
        (lambda c: queue(c).put_many(b"x"), "items"),
        (lambda c: queue(c).put_many([]), "items"),
        (lambda c: queue(c).get(timeout=-1), "timeout"),
    ],
    "PriorityQueue": [
        (lambda c: aiolead.PriorityQueue(c, PATH).put(b"x", priority=2**31), "priority")
    ],
    "DelayQueue": [
        (lambda c: aiolead.DelayQueue(c, PATH).put(b"x"), "put: needs either delay or at"),
        (
            lambda c: aiolead.DelayQueue(c, PATH).put(b"x", at=1.0, delay=1.0),
            "put: needs either delay or at",
        ),
        (lambda c: aiolead.DelayQueue(c, PATH).put(b"x", at=-1.0), "at"),
        (lambda c: aiolead.DelayQueue(c, PATH).put(b"x", delay="5"), "delay"),  # type: ignore[arg-type]
        (lambda c: aiolead.DelayQueue(c, PATH).put_many([b"x"], delay=10**400), "delay"),
    ],
    "TaskBoard": [
        *each(aiolead.TaskBoard, [{"max_tasks": 0}, {"keep_results": 20_001}]),
        *each(aiolead.TaskBoard, [{"dead_letters": DEAD}, {"max_attempts": True}]),
        *each(
            aiolead.TaskBoard,
            [{"dead_letters": f"{PATH}/{at}"} for at in ("tasks", "claims", "results")],
            max_attempts=2,
        ),
        *each(aiolead.TaskBoard, [{"report_every": -1}, {"report_every": float("inf")}]),
        (lambda c: aiolead.TaskBoard(c, PATH).submit("x"), "data"),  # type: ignore[arg-type]
        *(
            (lambda c, task=task: aiolead.TaskBoard(c, PATH).result(task), "task")
            for task in ("task-1", "../x", "", 7)
        ),
    ],
    "Group": [
        (lambda c, name=name: aiolead.Group(c, PATH).join(identity=name), "identity")
        for name in ("", "a/b", 7, ".", "\0")
    ],
    "Partitioner": each(
        aiolead.Partitioner,
        [
            {"path": "/"},
            {"items": "abc"},
            {"items": None},
            {"items": ["a/b"]},
            {"items": list(map(str, range(3000)))},
            {"identity": "a/b"},
            {"quiet": -1},
            {"on_disconnect": "never"},
        ],
        items=ITEMS,
    ),
    "PersistentNode": [
        *each(
            aiolead.PersistentNode,
            [
                {"path": "relative"},
                {"path": "/"},
                {"data": "text"},
                {"data": bytes(2_000_000)},
                {"mode": aiolead.CreateMode.CONTAINER},
                {"timeout": -1},
                {"acl": []},
                {"acl": 7},
            ],
        ),
        (lambda _: aiolead.PersistentNode(object(), PATH), "client"),  # type: ignore[arg-type]
    ],
    "ServiceRegistry": [
        *each(aiolead.ServiceRegistry, [{"path": "/"}]),
        (lambda c: aiolead.ServiceRegistry(c, PATH).observe("a/b"), "service"),
        (register("web"), "instance"),
        (register(replace(WEB, service_type=ServiceType.STATIC)), "instance"),
        (register(WEB, load_interval=-1), "load_interval"),
        (register(WEB, timeout=-1), "timeout"),
        (register(replace(WEB, payload={"a": object()})), "payload"),  # type: ignore[dict-item]
        (register(replace(WEB, payload={"a": float("nan")})), "payload"),
    ],
    "Config": [
        *each(aiolead.Config, [{"parse": 1}, {"keep": 0}, {"max_size": 0}, {"identity": ""}]),
        *(
            (publish(changes), "")
            for changes in (*({key: b""} for key in ("a/b", "", ".", "a\0", 1)), {}, {"a": "text"})
        ),
        *((publish(wrong), "changes: must be a mapping") for wrong in ("text", 5, None, ["key"])),
    ],
    "SequenceAllocator": [
        *each(aiolead.SequenceAllocator, [{"block": 0}, {"last": 0}, {"last": 2**63}, {"rng": 1}]),
        *each(aiolead.SequenceAllocator, [{"path": "/"}]),
        (lambda c: aiolead.SequenceAllocator(c, PATH).take(0), "count"),
    ],
    "RateLimit": [
        *each(aiolead.RateLimit, [{"path": "/"}, {"rng": 1}, {"burst": 0}, {"burst": 1.5}], rate=5),
        *each(aiolead.RateLimit, [{"per": 0}, {"per": "1"}, {"per": float("inf")}], rate=5),
        *each(aiolead.RateLimit, [{"max_age": 0}, {"max_age": 0.009}, {"acl": []}], rate=5),
        *each(aiolead.RateLimit, [{"acl": 7}, {"acl": aiolead.ACL.world()}, {"acl": [7]}], rate=5),
        *each(aiolead.RateLimit, [{"rate": 0}, {"rate": -1}, {"rate": 1e10}, {"rate": True}]),
        (lambda c: aiolead.RateLimit(c, PATH, burst=5), "rate: is missing"),
        (lambda c: aiolead.RateLimit(c, PATH, per=60.0), "rate: is missing"),
        (lambda c: aiolead.RateLimit(c, PATH, rate=5).acquire(0), "n: must be from 1 to 5, not 0"),
        (lambda c: aiolead.RateLimit(c, PATH, rate=5).acquire(6), "n: must be from 1 to 5, not 6"),
        (lambda c: aiolead.RateLimit(c, PATH, rate=5).acquire(timeout=-1), "timeout"),
        (lambda c: aiolead.RateLimit(c, PATH, rate=5).try_acquire(6), "n"),
        (lambda c: aiolead.RateLimit(c, PATH).try_acquire(0), "n"),
        (lambda c: aiolead.RateLimit(c, PATH).set_rate(0), "rate"),
        (lambda c: aiolead.RateLimit(c, PATH).set_rate(5, burst=0), "burst"),
    ],
    "SharedValue": [
        *each(aiolead.SharedValue, [{"path": "/"}, {"on_invalid": 1}, {"codec": int}]),
        *each(aiolead.SharedValue, [{"default": 2**31}], codec=INT),
        *each(aiolead.SharedValue, [{"default": "text"}]),
        (lambda c: aiolead.SharedValue(c, PATH).compare_and_set(None, b"x"), "expected"),  # type: ignore[arg-type]
        *(
            (lambda c, given=given: aiolead.SharedValue(c, PATH).update(given), "change")
            for given in (None, b"x", work, lambda: b"x")
        ),
        *(share(value) for value in (5, [1, 2, 3], "text", {"a": 1}, None, 1.5)),
        *(share(value, default="", codec=Codec.text()) for value in (5, b"text", None)),
        *(share(value, default=0, codec=Codec.int64()) for value in ("5", 1.0, True, None)),
        *(share(value, default=0, codec=Codec.decimal()) for value in ("5", 1.5, True, None)),
    ],
    "Counter": [
        *each(aiolead.Counter, [{"lock": PATH}, {"promote_after": -1}, {"rng": 4}, {"acl": []}]),
        (lambda c: aiolead.Counter(c, PATH).add(1.5), ""),  # type: ignore[arg-type]
        (lambda c: aiolead.Counter(c, PATH, codec=INT).set(2**31), "value"),
        (lambda c: aiolead.Counter(c, PATH, codec=INT).compare_and_set(0, 2**31), "new"),
    ],
}


COMMON: dict[str, list[Any]] = {
    "client": [object(), None],
    "path": ["/", "relative", "/a//b", 7],
    "acl": [[], 7, aiolead.ACL.world(), [7]],
    "codec": [int],
    "identity": ["", 7],
    "on_disconnect": ["never"],
    "on_invalid": [1],
    "on_revocation": ["keep"],
    "rng": [1],
    "timeout": [-1, "soon", float("nan")],
}
"""Invalid values of arguments that several recipes have; the row of a recipe may have others."""


def constructions(recipe: Recipe) -> Iterator[Row]:
    """One row for each invalid argument that the recipe is made with."""
    parameters = inspect.signature(recipe.make).parameters
    for name, values in {**COMMON, **recipe.refuses}.items():
        for value in values if name in parameters else ():
            given = {"path": PATH, **recipe.arguments, name: value}
            yield lambda c, given=given: recipe.make(**{"client": c, **given}), name  # type: ignore[misc]


def method_calls(thing: Any) -> Iterator[Row]:
    """One row for each invalid argument of a public method that needs no other argument."""
    for method, function in inspect.getmembers(thing, inspect.ismethod):
        parameters = {} if method.startswith("_") else inspect.signature(function).parameters
        if any(each.default is each.empty for each in parameters.values()):
            continue
        for name in COMMON.keys() & parameters.keys():
            for value in COMMON[name]:
                yield lambda _, call=function, given={name: value}: call(**given), name  # type: ignore[misc]


@pytest.mark.parametrize("name", RECIPES)
async def test_invalid_common_argument_is_refused_before_anything_is_sent(name: str) -> None:
    recipe = RECIPES[name]
    async with EmbeddedServer() as server, in_memory(server) as client:
        rows = [*constructions(recipe), *method_calls(recipe(client, PATH))]
        await check_refusals(server, client, rows)


@pytest.mark.parametrize("recipe", ROWS)
async def test_invalid_argument_is_refused_before_anything_is_sent(recipe: str) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await check_refusals(server, client, ROWS[recipe])


async def check_refusals(server: EmbeddedServer, client: Client, rows: Iterable[Row]) -> None:
    before = server.packets_in
    for call, named in rows:
        with pytest.raises(ConfigurationError, match=f"^{named}"):
            result = call(client)
            if inspect.isawaitable(result):
                await result
    assert server.packets_in == before
