"""Arguments that recipes refuse with the name of the argument, before they send anything."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from kit.clients import in_memory

import aiolead
from aiolead import Client
from aiolead.errors import ConfigurationError
from aiolead.testing import EmbeddedServer
from aiolead.types import Codec, ServiceType

PATH = "/app/here"
ITEMS = ["one", "two"]
WEB = aiolead.ServiceInstance(name="web", id="1", address="10.0.0.7", port=80)
INT = Codec.int32()

Call = Callable[[Client], object]
Row = tuple[Call, str]


def each(recipe: Any, options: Iterable[dict[str, Any]], **others: Any) -> list[Row]:
    """One row for each keyword argument that a recipe is made with."""
    return [
        (lambda c, given=given: recipe(c, **{"path": PATH, **others, **given}), next(iter(given)))
        for given in options
    ]


def queue(c: Client) -> Any:
    return aiolead.Queue(c, PATH)


def register(instance: Any, **options: Any) -> Call:
    return lambda c: aiolead.ServiceRegistry(c, PATH).register(instance, **options)


def publish(changes: Any) -> Call:
    return lambda c: aiolead.Config(c, PATH).publish(changes)


ROWS: dict[str, list[Row]] = {
    "Barrier": each(aiolead.Barrier, [{"path": "/"}]),
    "DoubleBarrier": [
        *each(aiolead.DoubleBarrier, [{"path": "/"}], count=2),
        *each(aiolead.DoubleBarrier, [{"count": n} for n in (0, -1, True, 1.5)]),
    ],
    "Queue": [
        (lambda c: aiolead.Queue(c, PATH, claims=PATH), "claims"),
        (lambda c: aiolead.Queue(c, PATH, claims="/"), "path: the root"),
        *each(aiolead.Queue, [{"max_items": 0}, {"max_items": 25_001}]),
        (lambda c: queue(c).put("x"), "data"),
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
    ],
    "Counter": [
        *each(aiolead.Counter, [{"lock": PATH}, {"promote_after": -1}, {"rng": 4}, {"acl": []}]),
        (lambda c: aiolead.Counter(c, PATH).add(1.5), ""),  # type: ignore[arg-type]
        (lambda c: aiolead.Counter(c, PATH, codec=INT).set(2**31), "value"),
        (lambda c: aiolead.Counter(c, PATH, codec=INT).compare_and_set(0, 2**31), "new"),
    ],
    "TreeCache": each(aiolead.TreeCache, [{"max_nodes": 0}, {"select": 1}, {"path": "tree"}]),
}


@pytest.mark.parametrize("recipe", ROWS)
async def test_invalid_argument_is_refused_before_anything_is_sent(recipe: str) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        before = server.packets_in
        for call, named in ROWS[recipe]:
            with pytest.raises(ConfigurationError, match=f"^{named}"):
                result = call(client)
                if inspect.isawaitable(result):
                    await result
        assert server.packets_in == before
