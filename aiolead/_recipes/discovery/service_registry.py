"""The registry of services: who offers what, in the layout of Curator's service discovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import final

import anyio
import anyio.lowlevel

from ..._logging import get_logger
from ...abc import CoordinationClient
from ...errors import ConfigurationError, NoNodeError
from ...model import ACL, Stat
from ...paths import join
from .._core.arguments import (
    checked_acl,
    checked_client,
    checked_name,
    checked_number,
    checked_path,
)
from ..membership.entries import AT_ONCE, Entries
from ..membership.persistent_node import KeptNode
from .instance import ServiceInstance, ServiceType

logger = get_logger("aiolead.discovery")


@final
class Registration(KeptNode):
    """An instance that is registered, for the body of an `async with`. See `register`."""

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
        self._load_told_at = -load_interval
        self._announcing: anyio.CancelScope | None = None

    @property
    def instance(self) -> ServiceInstance:
        """What others are told, or about to be."""
        return self._instance

    async def update(self, instance: ServiceInstance) -> None:
        """Tells others something else: when this returns, the servers have confirmed that, or what
        a later call has asked for.

            await registration.update(replace(registration.instance, weight=2.0))

        Raises:
            ConfigurationError: it is another service's, or has another id.
            ServerError, SessionError: it is not registered any longer; the body is cancelled, too.

        Cancellation: it remains what is wanted.

        On connection loss: goes on; after an expired session it is registered anew with that.
        """
        if (instance.name, instance.id) != (self._instance.name, self._instance.id):
            raise ConfigurationError("instance: its name and id stay; register another one instead")
        await self._written(self._put(instance))

    async def drain(self) -> None:
        """Wants no more requests: `enabled` becomes false, which clients of Curator respect, too.

        Those that have been sent are to be answered still. For the rest see `update`.
        """
        await self.update(replace(self._instance, enabled=False))

    async def resume(self) -> None:
        """Wants requests again. For the rest see `update`."""
        await self.update(replace(self._instance, enabled=True))

    async def report_load(self, load: float) -> None:
        """Publishes what there is to do, at most once per `load_interval`: the latest counts.

        Returns at once: it is published in the background. Everybody who watches the service reads
        the instance then, so an interval that is short costs something.

        Args:
            load: in a unit that all instances share; 0 or more.
        """
        self._load = checked_number("load", load)
        if self._announcing is None and self._load != self._instance.load:
            self._announcing = anyio.CancelScope()
            self._client.backend.spawn(self._tell_load)
        await anyio.lowlevel.checkpoint()

    async def _tell_load(self) -> None:
        scope = self._announcing
        if scope is None:
            return
        try:
            with scope:
                left = self._load_told_at + self._load_interval - anyio.current_time()
                await anyio.sleep(max(0.0, left))
                if self._is_inside and self._error is None:
                    self._load_told_at = anyio.current_time()
                    self._put(replace(self._instance, load=self._load))
        finally:
            self._announcing = None

    def _put(self, instance: ServiceInstance) -> int:
        number = self._want(instance.to_json())
        self._instance = instance
        return number

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._announcing is not None:
            self._announcing.cancel()
        await super().__aexit__(exc_type, exc, traceback)


@final
class ServiceView(Entries[ServiceInstance]):
    """The instances of a service, by id. Made by `ServiceRegistry.observe`; see there."""

    def __init__(self, client: CoordinationClient, path: str) -> None:
        super().__init__(client, path)
        self._invalid: dict[str, str] = {}

    @property
    def invalid(self) -> Mapping[str, str]:
        """What is registered, but makes no sense: its id, and why. It is left out of the value."""
        return MappingProxyType({i: why for i, why in self._invalid.items() if i in self._known})

    def _entry(self, name: str, data: bytes, stat: Stat) -> ServiceInstance | None:
        entry = _parsed(join(self._path, name), data)
        if isinstance(entry, str):
            self._invalid[name] = entry
            return None
        self._invalid.pop(name, None)
        return entry


@final
class ServiceRegistry:
    """Who offers which service, as with Curator's `ServiceDiscovery`: `<path>/<service>/<id>`.

        web = aiolead.ServiceInstance(name="web", address="10.0.0.7", port=80)
        async with registry.register(web) as registration:
            await registration.report_load(0.3)
            ...
            await registration.drain()

        async with registry.observe("web") as view:
            picker = aiolead.types.Picker(view, aiolead.types.RoundRobin())
            instance = picker.pick()

    An instance is listed as long as its process lives; one that dies, until its session ends.

    Args:
        client: the session.
        path: the path of all services; created, as a container, when it is missing.
        acl: of what we register, and of the path where it has to be created; everybody everything
            by default.

    Raises:
        ConfigurationError: an argument is malformed; nothing was sent.
    """

    def __init__(
        self, client: CoordinationClient, path: str, *, acl: Sequence[ACL] | None = None
    ) -> None:
        self._client = checked_client(client)
        self._path = checked_path(path)
        self._acl = checked_acl(acl)

    def __repr__(self) -> str:
        return f"<ServiceRegistry {self._path}>"

    @property
    def path(self) -> str:
        """The path of all services."""
        return self._path

    def register(
        self, instance: ServiceInstance, *, load_interval: float = 1.0, timeout: float | None = None
    ) -> Registration:
        """Registers an instance for the body of an `async with`.

        Entering waits until it is registered. Where an instance of that id is already, that of a
        process that died a moment ago perhaps, it waits for its end. One that is deleted, or whose
        session expires, is registered anew. Leaving tells the others at once.

        Args:
            instance: what others are told.
            load_interval: how often its load is published at most, in seconds.
            timeout: how long to wait for an instance of that id, in seconds; no limit by default.
                0 tries once.

        Raises:
            ConfigurationError: an argument is malformed; nothing was sent.

        Raises (on entering):
            AcquireTimeout: it was not registered within `timeout` seconds.
            ServerError: the servers refuse it: `NoAuthError`, for instance.
            UsageError: this client has registered that id already.

        Raises (on leaving):
            ServerError: they have refused to register it anew; the body was cancelled then.
            SessionError: the client was closed.

        Cancellation: leaves nothing behind. Leaving waits for the servers' confirmation, for a
        third of the session timeout at most.
        """
        if not isinstance(instance, ServiceInstance):
            raise ConfigurationError(f"instance: must be a ServiceInstance, not {instance!r}")
        if instance.service_type is not ServiceType.DYNAMIC:
            raise ConfigurationError(
                f"instance: is {instance.service_type.value}, but what is registered for as long "
                "as a block is DYNAMIC"
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
        """The instances of a service, followed: the latest ones, and an iterator over what they
        become. All of them, also those that want no requests; a `Picker` leaves those out.
        """
        return ServiceView(self._client, join(self._path, checked_name("service", service)))

    async def services(self) -> list[str]:
        """The names of all services, sorted. A read, as `instances`."""
        try:
            return sorted(await self._client.get_children(self._path))
        except NoNodeError:
            return []

    async def instances(self, service: str) -> list[ServiceInstance]:
        """The instances of a service as they are now, in two round trips, sorted by their ids.

        Those that make no sense are left out, with a warning in the log. A read of the connected
        server, which may be a moment behind; `client.sync()` before it where that matters.
        """
        client, path = self._client, join(self._path, checked_name("service", service))
        found: list[ServiceInstance] = []
        try:
            names = sorted(await client.get_children(path))
        except NoNodeError:
            return found
        for start in range(0, len(names), AT_ONCE):
            paths = [join(path, name) for name in names[start : start + AT_ONCE]]
            for each, look in [(each, client.get(each)) for each in paths]:
                try:
                    data, _ = await look
                except NoNodeError:
                    continue
                entry = _parsed(each, data)
                if isinstance(entry, ServiceInstance):
                    found.append(entry)
        return found


def _parsed(path: str, data: bytes) -> ServiceInstance | str:
    """What a znode says, or why it makes no sense."""
    try:
        return ServiceInstance.from_json(data)
    except ValueError as error:
        logger.warning("%s: is no instance of a service: %s", path, error)
        return str(error)
