"""The registry of services, in the layout of Curator's service discovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType, TracebackType
from typing import cast, final

import anyio
import anyio.lowlevel

from ..._util.escaping import get_logger
from ...abc import CoordinationClient
from ...errors import ConfigurationError, RequestRefusedError
from ...model import ACL, Stat
from ...paths import join
from .._core.arguments import checked_name, checked_number
from .._core.children import ChildReader
from .._core.observation import Observation
from .._core.observe import leaves_here
from .._core.reading import listed, over_sessions, read_children
from .._core.recipe import Recipe
from .._core.sharing import SharedReading, SharedView
from ..membership.persistent_node import PersistentNode
from .instance import ServiceInstance, ServiceType

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
        """The instance as others see it, or soon will."""
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
            self._announcing = anyio.CancelScope()
            self._client.backend.spawn(self._announce_load)
        await anyio.lowlevel.checkpoint()

    async def _announce_load(self) -> None:
        scope = self._announcing
        if scope is None:
            return
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
    """Why others are invalid, by id."""


@final
class ServiceView(SharedView[Mapping[str, ServiceInstance]]):
    """A view of the instances of a service, by id. Made by `ServiceRegistry.observe`."""

    @property
    def invalid(self) -> Mapping[str, str]:
        """Why registered instances are invalid, by id. They are not in `value`."""
        if not self._count:
            return MappingProxyType({})
        return cast(_Instances, self._latest).invalid

    def _make_reading(self) -> _ServiceReading:
        return _ServiceReading(self._client, self._path)


@final
class _ServiceReading(SharedReading[Mapping[str, ServiceInstance]]):
    """Reads the instances of a service for all observers of one client."""

    def __init__(self, client: CoordinationClient, path: str) -> None:
        super().__init__(client)
        self._path = path
        self._children = ChildReader(self, path, self._parsed)
        self._invalid: dict[str, str] = {}

    async def _read(self) -> Observation[Mapping[str, ServiceInstance]]:
        self._children.ask()
        instances = MappingProxyType(await self._children.read())
        self._invalid = {i: why for i, why in self._invalid.items() if i in self._children.known}
        return _Instances(instances, instances, MappingProxyType(self._invalid.copy()))

    def _parsed(self, name: str, data: bytes, _stat: Stat) -> ServiceInstance | None:
        self._invalid.pop(name, None)
        instance = _parsed(join(self._path, name), data)
        if isinstance(instance, str):
            self._invalid[name] = instance
            return None
        return instance


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
        acl: of our znodes and the path; open to everybody by default.

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
        """The names of all services, sorted. A read, as `instances`."""
        client, path = self._client, self._path
        return sorted(await over_sessions(client, lambda: listed(client.get_children(path))))

    async def instances(self, service: str) -> list[ServiceInstance]:
        """The present instances of a service, sorted by id, in two round trips.

        Invalid ones are omitted, with a warning in the log. Reads from the connected server, which
        may lag; call `client.sync()` first if that matters.
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
