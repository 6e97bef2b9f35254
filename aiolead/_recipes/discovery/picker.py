"""Picks an instance of a service for each request, without those that fail; the strategies."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from ..._util.escaping import described
from ...errors import ConfigurationError, UsageError
from .._core.arguments import checked_number
from ..membership.partitioner import score
from .instance import ServiceInstance


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
        if sample is not None and not (type(sample) is int and sample >= 1):
            raise ConfigurationError(f"sample: must be 1 or more, or None, not {described(sample)}")
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
                start: errors
                # A copy, made in one step: another thread may report an error meanwhile.
                for start, errors in list(self._errors.items())
                if errors.since > oldest
            }


def _start_of(instance: ServiceInstance) -> tuple[str, float]:
    return instance.id, instance.registered_at
