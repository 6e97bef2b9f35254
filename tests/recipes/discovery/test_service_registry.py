"""Service discovery: registering, watching, draining, publishing the load."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest
from kit.clients import catch_up, eventually, in_memory, nothing_left, stopped_clock
from parsing.hostile_data import DATA_CASES, JSON_FORMATS, JSON_VALUES, json_object

from aiolead import Client, Lock, ServiceInstance, ServiceRegistry
from aiolead.errors import ConfigurationError
from aiolead.testing import EmbeddedServer
from aiolead.types import Picker, RoundRobin, ServiceView

pytestmark = pytest.mark.timeout(60)

PATH = "/services"
WEB = ServiceInstance(name="web", id="1", address="10.0.0.7", port=80)


HOSTILE_INSTANCES = (
    *(
        json_object(JSON_FORMATS["instance"], {key: JSON_VALUES[value]})
        for key in ("weight", "load", "registrationTimeUTC", "port")
        for value in ("400 digits", "5000 digits", "float overflow", "NaN", "nested", "bidi")
    ),
    *(DATA_CASES[name] or b"" for name in DATA_CASES if name.startswith(("JSON", "no UTF-8"))),
)


async def sees(view: ServiceView, check: Callable[[ServiceInstance], bool]) -> None:
    """Waits until the only instance is so."""
    await eventually(
        lambda: len(view.value) == 1 and check(view.value["1"]), f"not yet: {dict(view.value)}"
    )


async def test_instance_is_registered_as_long_as_the_block(a: Client, b: Client) -> None:
    mine, theirs = ServiceRegistry(a, PATH), ServiceRegistry(b, PATH)
    assert await theirs.services() == []
    assert await theirs.instances("web") == []
    async with theirs.observe("web") as view:
        assert dict(view.value) == {}
        async with mine.register(WEB) as registration:
            await sees(view, lambda each: each == WEB)
            await catch_up(b)
            assert await theirs.services() == ["web"]
            assert await theirs.instances("web") == [WEB]
            other = replace(WEB, payload={"zone": "a"}, weight=2.0)
            await registration.update(other)
            await sees(view, lambda each: each == other)
            assert registration.instance == other
            with pytest.raises(ConfigurationError, match="its name and id stay"):
                await registration.update(replace(WEB, id="2"))
            with pytest.raises(ValueError, match="no name"):
                await registration.set(b"{}")
            await registration.set(WEB.to_json())
            await sees(view, lambda each: each == WEB)
            assert registration.state.is_present
        await eventually(lambda: not view.value, "it is gone")
        await catch_up(b)
        assert await theirs.instances("web") == []


async def test_draining_instance_is_not_picked(a: Client, b: Client) -> None:
    async with (
        ServiceRegistry(b, PATH).observe("web") as view,
        ServiceRegistry(a, PATH).register(WEB) as registration,
    ):
        picker = Picker(view, RoundRobin())
        for change in (None, registration.drain, registration.resume):
            if change is not None:
                await change()
            enabled = change != registration.drain
            await sees(view, lambda each, enabled=enabled: each.enabled == enabled)
            assert picker.pick() == (WEB if enabled else None)


async def test_instance_is_registered_again_with_its_latest_data() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        async with (
            ServiceRegistry(b, PATH).observe("web") as view,
            ServiceRegistry(a, PATH).register(WEB) as registration,
        ):
            await sees(view, lambda each: each == WEB)
            server.expire_session(a.session_id)
            await registration.drain()
            await sees(view, lambda each: not each.enabled)
            await b.delete(registration.path)
            await sees(view, lambda each: not each.enabled)
            await eventually(lambda: registration.is_present, "it is there again")
        await nothing_left(server, f"{PATH}/web")


async def test_loads_are_published_at_most_once_per_interval() -> None:
    """The first at once, then the latest after the interval."""
    async with (
        EmbeddedServer(tick_time=3) as server,
        in_memory(server, session_timeout=60, clock=stopped_clock) as a,
        in_memory(server) as b,
    ):
        registry = ServiceRegistry(a, PATH)
        async with (
            ServiceRegistry(b, PATH).observe("web") as view,
            registry.register(WEB, load_interval=0.2) as registration,
        ):
            before, began = server.requests["SET_DATA"], anyio.current_time()
            await registration.report_load(0.5)
            await sees(view, lambda each: each.load == 0.5)
            for number in range(200):
                await registration.report_load(number)
            await sees(view, lambda each: each.load == 199)
            most = 2 + (anyio.current_time() - began) / 0.2
            assert 2 <= server.requests["SET_DATA"] - before <= most
            await registration.report_load(199)
            assert registration._announcing is None, "a known load is not published again"
            # A pending load is not published after the end, and it does not undo a change that
            # was made meanwhile.
            await registration.report_load(7)
            await registration.drain()
            await sees(view, lambda each: each.load == 7 and not each.enabled)
            await registration.report_load(8)
        await eventually(lambda: registration._announcing is None, "nothing is left to do")
        with pytest.raises(ConfigurationError, match=r"^load"):
            await registration.report_load(-1)


async def test_invalid_instance_is_left_out_until_it_is_valid() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        odd = f"{PATH}/web/odd"
        async with (
            ServiceRegistry(b, PATH).observe("web") as view,
            ServiceRegistry(a, PATH).register(WEB),
        ):
            await a.create(odd, b"not JSON")
            await a.create(f"{PATH}/web/old", b'{"name": "web", "id": "old"}')
            await eventually(lambda: len(view.value) == 2, "two make sense")
            assert list(view.invalid) == ["odd"]
            assert view.value["old"].enabled
            await catch_up(b)
            assert len(await ServiceRegistry(b, PATH).instances("web")) == 2
            for data, count in ((WEB.to_json(), 3), (b"[]", 2)):
                await a.set(odd, data)
                await eventually(lambda n=count: len(view.value) == n, f"{count} make sense")
            assert "JSON object" in view.invalid["odd"]
            await a.delete(odd)
            await eventually(lambda: not view.invalid, "it is gone")


async def test_observers_of_one_client_share_their_reads() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        await a.ensure_path(f"{PATH}/web")
        await a.create(f"{PATH}/web/odd", b"not JSON")
        registry = ServiceRegistry(b, PATH)
        async with registry.observe("web") as first:
            before = server.requests.copy()
            async with registry.observe("web") as second, registry.observe("other") as other:
                assert not other.value
                assert not other.invalid
                reads = server.requests - before
                assert reads["GET_CHILDREN"] == 1, "that of the other service"
                assert reads["GET_DATA"] == 0
                assert list(first.invalid) == list(second.invalid) == ["odd"]
                async with ServiceRegistry(a, PATH).register(WEB):
                    for view in (first, second):
                        await eventually(lambda view=view: list(view.value) == [WEB.id], "seen")
            await a.delete(f"{PATH}/web/odd")
            await eventually(lambda: not first.invalid and first.is_live, "it goes on")


async def test_hostile_instance_is_left_out_and_ends_no_observer(a: Client, b: Client) -> None:
    """Anybody with CREATE may write one. Observers of the service go on, and keep their locks."""
    async with ServiceRegistry(a, PATH).register(WEB), Lock(b, "/app/lock").acquire() as held:
        async with ServiceRegistry(b, PATH).observe("web") as view:
            for number, data in enumerate(HOSTILE_INSTANCES):
                await a.create(f"{PATH}/web/odd{number}", data)
            await eventually(
                lambda: len(view.invalid) == len(HOSTILE_INSTANCES), "all are reported"
            )
            assert list(view.value) == [WEB.id]
            assert all(why.isprintable() and len(why) < 500 for why in view.invalid.values())
            assert await ServiceRegistry(b, PATH).instances("web") == [WEB]
            await a.set(f"{PATH}/web/odd0", WEB.to_json())
            await eventually(lambda: len(view.value) == 2, "it is followed on")
            assert held.is_held


# --- JSON --------------------------------------------------------------------------------------

# As Curator 5.4.0 has written them.
WRITTEN = """
{"name":"web","id":"i1","address":"10.0.0.1","port":80,"sslPort":443,"payload":null,
"registrationTimeUTC":1325129459728,"serviceType":"DYNAMIC","uriSpec":{"parts":[
{"value":"scheme","variable":true},{"value":"://","variable":false},
{"value":"address","variable":true},{"value":":","variable":false},
{"value":"port","variable":true},{"value":"/x","variable":false}]}}

{"name":"web","id":"i1","address":"h","port":null,"sslPort":null,"payload":"text",
"registrationTimeUTC":1,"serviceType":"DYNAMIC","uriSpec":null}

{"name":"web","id":"i1","address":"h","port":null,"sslPort":null,
"payload":["java.lang.Long",5],"registrationTimeUTC":1,"serviceType":"STATIC","uriSpec":null}

{"name":"web","id":"i1","address":"h","port":null,"sslPort":null,
"payload":{"@class":"java.util.HashMap","k":1},"registrationTimeUTC":1,
"serviceType":"PERMANENT","uriSpec":null,"enabled":false}
""".strip()
BY_CURATOR = [text.replace("\n", "") for text in WRITTEN.split("\n\n")]


@pytest.mark.parametrize("text", BY_CURATOR)
def test_json_of_curator_is_read_and_written(text: str) -> None:
    assert ServiceInstance.from_json(text.encode()).to_json().decode() == text


def test_uri_is_made_of_the_parts_of_its_specification() -> None:
    instance = ServiceInstance.from_json(BY_CURATOR[0].encode())
    assert instance.uri_spec == "{scheme}://{address}:{port}/x"
    assert instance.uri() == "https://10.0.0.1:80/x"
    assert instance.uri({"port": 81}) == "https://10.0.0.1:81/x"
    assert replace(instance, uri_spec=None).uri() == ""
    with pytest.raises(ConfigurationError, match="variable zone"):
        replace(instance, uri_spec="{zone}").uri()


def test_weight_load_and_enabled_are_written_beside_curators_fields() -> None:
    instance = replace(WEB, weight=0.5, load=3.0, enabled=False)
    found = json.loads(instance.to_json())
    assert (found["weight"], found["load"], found["enabled"]) == (0.5, 3.0, False)
    assert ServiceInstance.from_json(instance.to_json()) == instance
    assert not {"weight", "load", "enabled"} & json.loads(WEB.to_json()).keys()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        "\xff",
        '{"name": 1, "id": "x"}',
        '{"name": "a", "id": "x", "port": "80"}',
        '{"name": "a", "id": "x", "weight": -1}',
        '{"name": "a", "id": "x", "enabled": 1}',
        '{"name": "a", "id": "x", "load": "much"}',
        '{"name": "a", "id": "x", "serviceType": "ODD"}',
        '{"name": "a", "id": "x", "uriSpec": {}}',
        '{"name": "a", "id": "x", "uriSpec": {"parts": [1]}}',
        '{"name": "a", "id": "x", "payload": [1, 2]}',
        '{"name": "a", "id": "x", "registrationTimeUTC": null}',
        "[" * 100_000,
    ],
)
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ServiceInstance.from_json(text.encode("latin-1"))
