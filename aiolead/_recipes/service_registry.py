"""The registry of services, in the layout of Curator's service discovery.

A `Picker` picks an instance for each request, without those that fail.
"""

from __future__ import annotations

import enum
import json
import math
import random
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast, final

import anyio
import anyio.lowlevel

from .._util.escaping import get_logger
from .._util.parsing import MalformedError, check_json, json_object, real, shown
from ..abc import CoordinationClient
from ..errors import ConfigurationError, RequestRefusedError, UsageError
from ..model import ACL
from ..paths import join
from .group import score
from .persistent_node import PersistentNode
from .reading import listed, over_sessions, read_children
from .recipe import Recipe, checked_count, checked_flag, checked_name, checked_number
from .view import ChildReader, Observation, Reading, View, leaves_here

if TYPE_CHECKING:
    JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
else:
    JSON = object  # tools that evaluate types at run time would recurse
"""A value in JSON."""

__all__ = ["ServiceInstance", "ServiceRegistry"]
__types__ = [
    "ConsistentHash",
    "DownPolicy",
    "InstanceSource",
    "LeastLoaded",
    "Picker",
    "Registration",
    "RoundRobin",
    "ServiceType",
    "ServiceView",
    "Strategy",
    "WeightedRandom",
]

_MOST = 1e100
"""Greatest weight and load. Strategies add and divide them, and need finite results."""

_LAST_TIME = (1 << 53) / 1000
"""Latest registration, in seconds since 1970. `float` and Java's `long` have every ms up to it."""

_SHOWN = 200
"""Most characters shown of an error about a foreign instance."""


class ServiceType(enum.Enum):
    """How long an instance stays registered."""

    DYNAMIC = "DYNAMIC"
    """As long as its process lives. aiolead registers only such instances."""
    STATIC = "STATIC"
    PERMANENT = "PERMANENT"
    DYNAMIC_SEQUENTIAL = "DYNAMIC_SEQUENTIAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInstance:
    """One process, or one of its ports, that offers a service.

    Attributes:
        name: of the service.
        id: of the instance, unique in the service; defaults to a random UUID.
        address: host name or address.
        port: without TLS.
        ssl_port: with TLS.
        payload: anything else for clients: any JSON value but a list, which Curator cannot read. An
            object that represents a Java class carries its name as `@class`.
        registered_at: when it was registered, by its wall clock, in seconds since 1970.
        service_type: how long it stays.
        uri_spec: how to reach it, such as `{scheme}://{address}:{port}/api`; see `uri`.
        enabled: whether it accepts requests.
        weight: its relative share of the requests, from 0 to 1e100. Curator ignores it.
        load: its published load, from 0 to 1e100, in a unit that all instances share; None if it
            publishes none. Curator ignores it.

    Raises:
        ConfigurationError: an attribute is malformed.
    """

    name: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    address: str | None = None
    port: int | None = None
    ssl_port: int | None = None
    payload: JSON = None
    registered_at: float = field(default_factory=time.time)
    service_type: ServiceType = ServiceType.DYNAMIC
    uri_spec: str | None = None
    enabled: bool = True
    weight: float = 1.0
    load: float | None = None

    def __post_init__(self) -> None:
        checked_name("name", self.name)
        checked_name("id", self.id)
        for name in ("address", "uri_spec"):
            text = getattr(self, name)
            if text is not None and not isinstance(text, str):
                raise ConfigurationError(f"{name}: must be a str or None, not {text!r}")
        for name in ("port", "ssl_port"):
            port = getattr(self, name)
            if port is not None:
                checked_count(name, port, least=0, most=0xFFFF)
        checked_number("weight", self.weight, most=_MOST)
        at = checked_number("registered_at", self.registered_at, most=_LAST_TIME)
        milliseconds = round(at * 1000)
        object.__setattr__(self, "registered_at", milliseconds / 1000)  # as it is written
        if self.load is not None:
            checked_number("load", self.load, most=_MOST)
        checked_flag("enabled", self.enabled)
        if not isinstance(self.service_type, ServiceType):
            raise ConfigurationError(
                f"service_type: must be a ServiceType, not {self.service_type!r}"
            )
        # Java writes a value that is no object as a list of its class and the value.
        if isinstance(self.payload, (list, tuple)) and not (
            len(self.payload) == 2 and isinstance(self.payload[0], str)
        ):
            raise ConfigurationError("payload: must not be a list: put it into a dict")

    def __hash__(self) -> int:
        return hash((self.name, self.id))

    # --- JSON ----------------------------------------------------------------------------------

    def to_json(self) -> bytes:
        """Encode the instance as Curator's `JsonInstanceSerializer` does.

        `enabled`, `weight` and `load` are omitted if they have their defaults; Curator reads only
        the first. Raises `ConfigurationError` if the payload cannot be written as JSON.
        """
        found: dict[str, object] = {
            "name": self.name,
            "id": self.id,
            "address": self.address,
            "port": self.port,
            "sslPort": self.ssl_port,
            "payload": self.payload,
            "registrationTimeUTC": round(self.registered_at * 1000),
            "serviceType": self.service_type.value,
            "uriSpec": None if self.uri_spec is None else {"parts": _parts(self.uri_spec)},
        }
        if not self.enabled:
            found["enabled"] = False
        if self.weight != 1.0:
            found["weight"] = self.weight
        if self.load is not None:
            found["load"] = self.load
        try:
            text = json.dumps(found, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            check_json(found)  # refuses what `from_json` would refuse
            return text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"payload: cannot be written as JSON: {error}") from None

    @classmethod
    def from_json(cls, data: bytes) -> ServiceInstance:
        """Read the JSON of Curator or `to_json`; raises ValueError if it is invalid."""
        found = json_object(data)
        if not {"name", "id"} <= found.keys():
            raise MalformedError("has no name, or no id")
        spec = found.get("uriSpec")
        try:
            return cls(
                name=found["name"],
                id=found["id"],
                address=found.get("address"),
                port=found.get("port"),
                ssl_port=found.get("sslPort"),
                payload=found.get("payload"),
                registered_at=real(found.get("registrationTimeUTC", 0)) / 1000,
                service_type=_service_type(found.get("serviceType", "DYNAMIC")),
                uri_spec=None if spec is None else _spec(spec),
                enabled=found.get("enabled", True),
                weight=found.get("weight", 1.0),
                load=found.get("load"),
            )
        except ConfigurationError as error:
            # It is about foreign data, of any length, not about an argument.
            raise MalformedError(str(error)[:_SHOWN]) from None

    def uri(self, variables: Mapping[str, object] | None = None) -> str:
        """Fill in the variables of `uri_spec`; empty without one.

        The variables are Curator's: `scheme` (https if there is an `ssl_port`), `name`, `id`,
        `address`, `port`, `ssl-port`, `registration-time-utc`, `service-type`. `variables` adds
        others, or replaces their values. One without a value raises `ConfigurationError`.
        """
        values: dict[str, object] = {
            "scheme": "http" if self.ssl_port is None else "https",
            "name": self.name,
            "id": self.id,
            "address": self.address,
            "port": self.port,
            "ssl-port": self.ssl_port,
            "registration-time-utc": round(self.registered_at * 1000),
            "service-type": self.service_type.value.lower(),
            **(variables or {}),
        }
        text = ""
        for part in _parts(self.uri_spec or ""):
            value = part["value"]
            if part["variable"]:
                if values.get(str(value)) is None:
                    raise ConfigurationError(f"uri_spec: has the variable {value}, but no value")
                value = values[str(value)]
            text += str(value)
        return text


_VARIABLE = re.compile(r"\{([^{}]*)\}")


def _parts(spec: str) -> list[dict[str, object]]:
    """The parts of a URI, as in Curator's `UriSpec`."""
    texts = _VARIABLE.split(spec)
    return [
        {"value": text, "variable": bool(number % 2)}
        for number, text in enumerate(texts)
        if text or number % 2
    ]


def _service_type(found: object) -> ServiceType:
    if isinstance(found, str) and found in ServiceType.__members__:
        return ServiceType[found]
    raise MalformedError(f"serviceType: must be one of Curator's, not {shown(found)}")


def _spec(found: object) -> str:
    if not isinstance(found, dict) or not isinstance(found.get("parts"), list):
        raise MalformedError("uriSpec: has no parts")
    texts: list[str] = []
    for part in found["parts"]:
        if not isinstance(part, dict) or not isinstance(part.get("value"), str):
            raise MalformedError("uriSpec: has a part without a value")
        texts.append(f"{{{part['value']}}}" if part.get("variable") else part["value"])
    return "".join(texts)


class Strategy(Protocol):
    """Chooses one of several instances. Some have state: give each picker its own."""

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """Choose one of `instances`: at least one, in the order of ids, each with a weight above 0.

        `key` is what the request is about, if the strategy needs it.
        """
        ...


@final
class RoundRobin:
    """One instance after the other, by weight: the smooth round robin of nginx.

    Twice the weight gets twice the requests, evenly spread; a new instance only its share.

    Threads and forks: any thread may use it.
    """

    def __init__(self) -> None:
        self._credit: dict[str, float] = {}

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """See `Strategy`."""
        credit = {each.id: self._credit.get(each.id, 0.0) + each.weight for each in instances}
        chosen = max(instances, key=lambda each: credit[each.id])
        credit[chosen.id] -= sum(each.weight for each in instances)
        self._credit = credit
        return chosen


@final
class WeightedRandom:
    """A random instance, with probabilities by weight, from the source of randomness `rng`.

    Threads and forks: any thread may use it.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()  # noqa: S311 - no secret

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """See `Strategy`."""
        return self._rng.choices(instances, [each.weight for each in instances])[0]


@final
class LeastLoaded:
    """The instance with the least published load, relative to its weight; ties are random.

    An instance that publishes no load counts as the average of those that do.

    Published loads are slightly old, and all clients see the same ones: many overload an instance
    that was idle a second ago (thundering herd). With `sample=2` the less loaded of two random
    instances is chosen: nearly as even, without the herd. By default all instances are compared.
    `rng` is the source of randomness.

    Threads and forks: any thread may use it.
    """

    def __init__(self, rng: random.Random | None = None, *, sample: int | None = None) -> None:
        if sample is not None:
            checked_count("sample", sample, most=1 << 31)
        self._rng = rng or random.Random()  # noqa: S311 - no secret
        self._sample = sample

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """See `Strategy`."""
        published = [each.load / each.weight for each in instances if each.load is not None]
        average = sum(published) / len(published) if published else 0.0
        compared = instances
        if self._sample is not None and self._sample < len(instances):
            compared = self._rng.sample(instances, self._sample)
        loads = [average if each.load is None else each.load / each.weight for each in compared]
        least = min(loads)
        best = [each for each, load in zip(compared, loads, strict=True) if load <= least]
        return self._rng.choice(best)


@final
class ConsistentHash:
    """The same instance for the same key: rendezvous hashing, by weight.

    When an instance comes or goes, only its keys move; a change of weight moves the difference. All
    clients choose alike.

    Threads and forks: any thread may use it.
    """

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """See `Strategy`; raises `UsageError` without a key."""
        if key is None:
            raise UsageError("ConsistentHash: pick() needs a key")
        return max(instances, key=lambda each: -each.weight / math.log(score(key, each.id)))


@dataclass(frozen=True, slots=True)
class DownPolicy:
    """When a failing instance is left out, and for how long. The defaults are Curator's.

    Attributes:
        timeout: how long errors count and the instance is left out, from the first error on, in
            seconds.
        threshold: how many errors within that time it takes.

    Raises:
        ConfigurationError: an attribute is malformed.
    """

    timeout: float = 30.0
    threshold: int = 2

    def __post_init__(self) -> None:
        checked_number("timeout", self.timeout)
        checked_count("threshold", self.threshold, most=1 << 31)


class InstanceSource(Protocol):
    """A source of instances: a `ServiceView`, or anything with such a `value`."""

    @property
    def value(self) -> Mapping[str, ServiceInstance]:
        """The latest instances, by id."""
        ...


@final
class Picker:
    """Picks one of the currently registered instances for each request.

        picker = aiolead.types.Picker(view, aiolead.types.RoundRobin())
        instance = picker.pick()
        if instance is not None:
            try: ...
            except OSError:
                picker.report_error(instance)
                raise

    It leaves out instances that are disabled, have weight 0, or have failed lately (`down`). It
    never waits, and sends nothing to ZooKeeper. `clock` is a monotonic clock, in seconds.

    Threads and forks: any thread may use it, and a forked child, where the view's instances are
    those at the fork.
    """

    def __init__(
        self,
        view: InstanceSource,
        strategy: Strategy,
        *,
        down: DownPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view = view
        self._strategy = strategy
        self._down = down or DownPolicy()
        self._clock = clock
        self._errors: dict[tuple[str, float], tuple[float, int]] = {}
        """The time of the first error, and the number of errors, of each registered instance."""

    def pick(self, key: str | None = None) -> ServiceInstance | None:
        """Pick an instance; None if none is available. `ConsistentHash` needs a `key`."""
        self._forget_old()
        every = sorted(self._view.value.values(), key=lambda each: each.id)
        able = [
            each for each in every if each.enabled and each.weight > 0 and not self._is_down(each)
        ]
        return self._strategy.choose(able, key) if able else None

    def report_error(self, instance: ServiceInstance) -> None:
        """Report a failed request to an instance; see `DownPolicy`."""
        self._forget_old()
        # A restarted instance begins without errors, even under the same id.
        key = (instance.id, instance.registered_at)
        since, count = self._errors.get(key, (self._clock(), 0))
        self._errors[key] = since, count + 1

    def is_down(self, instance: ServiceInstance) -> bool:
        """Whether an instance is left out because it has failed."""
        self._forget_old()
        return self._is_down(instance)

    def _is_down(self, instance: ServiceInstance) -> bool:
        _, count = self._errors.get((instance.id, instance.registered_at), (0.0, 0))
        return count >= self._down.threshold

    def _forget_old(self) -> None:
        if self._errors:
            oldest = self._clock() - self._down.timeout
            # A copy, made in one step: another thread may report an error meanwhile.
            every = list(self._errors.items())
            self._errors = {key: errors for key, errors in every if errors[0] > oldest}


logger = get_logger("aiolead.discovery")


@final
class Registration(PersistentNode):
    """A registered instance, for the body of an `async with`. See `ServiceRegistry.register`."""

    _is_contended = False  # only an instance of that id wants it, which is created again

    def __init__(
        self,
        client: CoordinationClient,
        path: str,
        instance: ServiceInstance,
        *,
        load_interval: float,
        timeout: float | None,
        acl: Sequence[ACL] | None,
    ) -> None:
        super().__init__(client, path, instance.to_json(), timeout=timeout, acl=acl)
        self._instance = instance
        self._load_interval = load_interval
        self._load = instance.load
        self._load_reported_at = -load_interval
        self._announcing: anyio.CancelScope | None = None

    @property
    def instance(self) -> ServiceInstance:
        """The instance as observers see it, or soon will."""
        return self._instance

    async def update(self, instance: ServiceInstance) -> None:
        """Change the instance; return once the servers have confirmed this change or a later one.

            await registration.update(replace(registration.instance, weight=2.0))

        Raises:
            ConfigurationError: it has another name or id.
            RequestRefusedError: it is too long for the servers; the instance stays as it was.
            ServerError, SessionError: it is no longer registered; the body is cancelled, too.

        Cancellation: the instance is changed all the same.

        On connection loss: continues; after an expired session the changed instance is registered.
        """
        if (instance.name, instance.id) != (self._instance.name, self._instance.id):
            raise ConfigurationError("instance: its name and id stay; register another one instead")
        before = self._instance
        try:
            await self._until_written(self._put(instance))
        except RequestRefusedError:
            if self._instance is instance:
                self._instance = before
            raise

    async def set(self, data: bytes) -> None:
        """Change the instance to one given as JSON; see `update`."""
        await self.update(ServiceInstance.from_json(data))

    async def drain(self) -> None:
        """Stop new requests: set `enabled` to false, which clients of Curator respect, too.

        Keep answering requests that were sent before. Otherwise as `update`.
        """
        await self.update(replace(self._instance, enabled=False))

    async def resume(self) -> None:
        """Accept requests again. Otherwise as `update`."""
        await self.update(replace(self._instance, enabled=True))

    async def report_load(self, load: float) -> None:
        """Publish the load, at most once per `load_interval`; the latest value wins.

        Returns at once; the client publishes in the background. Every observer then reads the
        instance, so a short interval is expensive. `load` is 0 or more, in a unit that all
        instances share.
        """
        self._load = checked_number("load", load)
        if self._announcing is None and self._load != self._instance.load:
            scope = self._announcing = anyio.CancelScope()
            self._client.backend.spawn(partial(self._announce_load, scope))
        await anyio.lowlevel.checkpoint()

    async def _announce_load(self, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                left = self._load_reported_at + self._load_interval - anyio.current_time()
                await anyio.sleep(max(0.0, left))
                if self._is_inside and self._keeper.error is None:
                    self._load_reported_at = anyio.current_time()
                    self._put(replace(self._instance, load=self._load))
        finally:
            self._announcing = None

    def _put(self, instance: ServiceInstance) -> int:
        generation = self._want(instance.to_json())
        self._instance = instance
        return generation

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._announcing is not None and leaves_here(self._client, exc):
            self._announcing.cancel()
        await super().__aexit__(exc_type, exc, traceback)


@dataclass(frozen=True, slots=True)
class _Instances(Observation[Mapping[str, ServiceInstance]]):
    invalid: Mapping[str, str]
    """Why registered instances are invalid, by id."""


@final
class ServiceView(View[Mapping[str, ServiceInstance]]):
    """A view of the instances of a service, by id. Made by `ServiceRegistry.observe`."""

    def __init__(self, client: CoordinationClient, path: str) -> None:
        super().__init__(client, path, partial(_reading, client, path), shared_by=())

    @property
    def invalid(self) -> Mapping[str, str]:
        """Why registered instances are invalid, by id. They are not in `value`."""
        if not self._count:
            return MappingProxyType({})
        return cast(_Instances, self._latest).invalid


def _reading(client: CoordinationClient, path: str) -> Reading[Mapping[str, ServiceInstance]]:
    """The reading of the instances of a service for all observers of one client."""
    children = ChildReader(client, path, lambda name, data, _: _parsed(join(path, name), data))

    async def read(_reading: Reading[Mapping[str, ServiceInstance]]) -> _Instances:
        children.ask(_reading)
        found = await children.read(_reading)
        instances = MappingProxyType(
            {name: each for name, each in found.items() if isinstance(each, ServiceInstance)}
        )
        invalid = {name: why for name, why in found.items() if isinstance(why, str)}
        return _Instances(instances, instances, MappingProxyType(invalid))

    return Reading(client, read)


@final
class ServiceRegistry(Recipe):
    """Service discovery as with Curator's `ServiceDiscovery`: `<path>/<service>/<id>`.

        web = aiolead.ServiceInstance(name="web", address="10.0.0.7", port=80)
        async with registry.register(web) as registration:
            await registration.report_load(0.3)
            ...
            await registration.drain()

        async with registry.observe("web") as view:
            picker = aiolead.types.Picker(view, aiolead.types.RoundRobin())
            instance = picker.pick()

    An instance is listed as long as its process lives; after a crash, until its session expires.

    Args:
        client: the session.
        path: the path of all services; created as a container if missing.
        acl: of the registered znodes and the path; defaults to the client's `default_acl`.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def register(
        self, instance: ServiceInstance, *, load_interval: float = 1.0, timeout: float | None = None
    ) -> Registration:
        """Register an instance for the body of an `async with`.

        Entering waits until it is registered, and first for the end of another client's instance
        with that id, such as that of a crashed process. An instance that is deleted, or whose
        session expires, is registered again. Leaving the block removes it at once.

        Args:
            instance: the data that observers see.
            load_interval: least time between two published loads, in seconds.
            timeout: how long entering waits, in seconds; defaults to forever. 0 tries once.

        Raises, cancellation: as `PersistentNode`.
        """
        if not isinstance(instance, ServiceInstance):
            raise ConfigurationError(f"instance: must be a ServiceInstance, not {instance!r}")
        if instance.service_type is not ServiceType.DYNAMIC:
            raise ConfigurationError(
                "instance: is registered for as long as a block, so its service_type must be "
                f"DYNAMIC, not {instance.service_type.value}"
            )
        path = join(join(self._path, instance.name), instance.id)
        return Registration(
            self._client,
            path,
            instance,
            load_interval=checked_number("load_interval", load_interval),
            timeout=timeout,
            acl=self._acl,
        )

    def observe(self, service: str) -> ServiceView:
        """Observe a service's instances, including disabled ones, which a `Picker` omits."""
        return ServiceView(self._client, join(self._path, checked_name("service", service)))

    async def services(self) -> list[str]:
        """The names of all services, sorted. May lag, as `Lock.holders`."""
        client, path = self._client, self._path
        return sorted(await over_sessions(client, lambda: listed(client.get_children(path))))

    async def instances(self, service: str) -> list[ServiceInstance]:
        """The present instances of a service, sorted by id, in two round trips.

        Invalid ones are omitted, with a warning in the log. May lag, as `Lock.holders`.
        """
        path = join(self._path, checked_name("service", service))
        read = partial(read_children, self._client, path)
        found = await over_sessions(self._client, read)
        parsed = [_parsed(join(path, name), data) for name, (data, _) in found.items()]
        return [each for each in parsed if isinstance(each, ServiceInstance)]


def _parsed(path: str, data: bytes) -> ServiceInstance | str:
    """The instance in a znode, or why it is invalid."""
    try:
        return ServiceInstance.from_json(data)
    except ValueError as error:
        logger.warning("%s: is no instance of a service: %s", path, error)
        return str(error)
