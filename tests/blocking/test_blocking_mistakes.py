"""Calls refuse arguments that could not work, before anything is sent."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from aiolead import blocking
from aiolead.blocking import admin
from aiolead.errors import ConfigurationError, UsageError
from aiolead.model import Quota
from aiolead.testing import ThreadedServer


async def stop(_lost: object) -> None:
    raise AssertionError("nobody awaits it")


class Stopper:
    async def __call__(self, _lost: object) -> None:
        raise AssertionError("nobody awaits it")


def nothing() -> None: ...


WRONG: dict[str, Any] = {
    "text": "stop",
    "number": 3,
    "async": stop,
    "async_partial": functools.partial(stop),
    "async_object": Stopper(),
    "takes_nothing": nothing,
}

ACQUIRE: dict[str, Callable[[blocking.Client, Any], Any]] = {
    "lock": lambda c, on_lost: blocking.Lock(c, "/r").acquire(on_lost=on_lost),
    "try": lambda c, on_lost: blocking.Lock(c, "/r").try_acquire(on_lost=on_lost),
    "leadership": lambda c, on_lost: blocking.Election(c, "/r").leadership(on_lost=on_lost),
    "run": lambda c, on_lost: blocking.Election(c, "/r").run(print, on_lost=on_lost),
    "consume": lambda c, on_lost: blocking.Queue(c, "/r").consume(on_lost=on_lost),
}


@pytest.mark.parametrize("acquire", ACQUIRE)
@pytest.mark.parametrize("wrong", WRONG)
def test_on_lost_that_could_not_be_called_is_refused(
    own: ThreadedServer, client: blocking.Client, acquire: str, wrong: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"on_lost: .*def on_lost"):
        ACQUIRE[acquire](client, WRONG[wrong])
    assert "/r" not in own.znodes()


def test_coroutine_in_the_place_of_on_lost_is_refused(client: blocking.Client) -> None:
    with pytest.raises(ConfigurationError, match="plain function"):
        blocking.Lock(client, "/r").acquire(on_lost=stop(None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (None, "must be a function of the client"),
        ("get", "must be a function of the client"),
        (lambda _: 5, "must return something to await, .* not 5"),
        (lambda c: c.session_id and None, "must return something to await, .* not None"),
    ],
)
def test_act_that_cannot_be_awaited_is_refused(
    client: blocking.Client, act: Any, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        client.call(act)
    assert client.call(lambda c: c.get_children("/")) == ["zookeeper"]


def test_coroutine_in_the_place_of_act_is_refused(client: blocking.Client) -> None:
    with pytest.raises(ConfigurationError, match="must be a function of the client"):
        client.call(stop(None))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", admin.__all__)
def test_operators_calls_need_a_client_for_threads(name: str) -> None:
    wrong: Any = object()
    path = ["/a"] if "quota" in name or name == "delete_all" else []
    rest = [*path, Quota(count=1)] if name == "set_quota" else path
    with pytest.raises(ConfigurationError, match=r"client of aiolead\.blocking, .*aiolead\.admin"):
        getattr(admin, name)(wrong, *rest)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_objects_of_a_session_are_not_pickled(
    client: blocking.Client, duplicate: Callable[[object], object]
) -> None:
    """As for another process. The same goes for what contains them."""
    lock = blocking.Lock(client, "/lock")
    with lock as held:
        for each in (client, lock, held, client.chroot("/a")):
            with pytest.raises(UsageError, match=r"neither pickled nor copied, .* connect there"):
                duplicate(each)
