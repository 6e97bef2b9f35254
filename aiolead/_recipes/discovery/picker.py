"""Picks an instance of a service for each request, without those that fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, final

from ..._escaping import described
from ...errors import ConfigurationError
from .._core.arguments import checked_number
from .instance import ServiceInstance
from .strategies import Strategy


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
        if type(self.threshold) is not int or self.threshold < 1:
            raise ConfigurationError(
                f"threshold: must be 1 or more, not {described(self.threshold)}"
            )


class InstanceSource(Protocol):
    """A source of instances: a `ServiceView`, or anything with such a `value`."""

    @property
    def value(self) -> Mapping[str, ServiceInstance]:
        """The latest instances, by id."""
        ...


@dataclass(slots=True)
class _Errors:
    since: float
    count: int = 0


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
        self._errors: dict[tuple[str, float], _Errors] = {}

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
        errors = self._errors.setdefault(_start_of(instance), _Errors(self._clock()))
        errors.count += 1

    def is_down(self, instance: ServiceInstance) -> bool:
        """Whether an instance is left out because it has failed."""
        self._forget_old()
        return self._is_down(instance)

    def _is_down(self, instance: ServiceInstance) -> bool:
        errors = self._errors.get(_start_of(instance))
        return errors is not None and errors.count >= self._down.threshold

    def _forget_old(self) -> None:
        if self._errors:
            oldest = self._clock() - self._down.timeout
            self._errors = {
                start: errors for start, errors in self._errors.items() if errors.since > oldest
            }


def _start_of(instance: ServiceInstance) -> tuple[str, float]:
    return instance.id, instance.registered_at
