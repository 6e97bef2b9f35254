"""Strategies that choose one of a service's instances."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Protocol, final

from ..._escaping import described
from ...errors import ConfigurationError, UsageError
from ..membership.split import score
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
    """A random instance, with probabilities by weight, from the source of randomness `rng`."""

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
    """

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """See `Strategy`; raises `UsageError` without a key."""
        if key is None:
            raise UsageError("ConsistentHash: pick() needs a key")
        return max(instances, key=lambda each: -each.weight / math.log(score(key, each.id)))
