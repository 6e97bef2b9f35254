"""Whom to ask: how one of several instances is chosen."""

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
    """Chooses one of several instances. Not to be shared by pickers that should not influence each
    other: some remember whom they have chosen.
    """

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """One of them.

        Args:
            instances: at least one, in the order of their ids, each with a weight above 0.
            key: what the request is about, where that matters.
        """
        ...


@final
class RoundRobin:
    """One after the other, by weight: the smooth round robin of nginx.

    An instance with twice the weight comes twice as often, evenly spread. One that is new gets no
    more than its share.
    """

    def __init__(self) -> None:
        self._credit: dict[str, float] = {}

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """See `Strategy`."""
        credit = {each.id: self._credit.get(each.id, 0.0) + each.weight for each in instances}
        # Of several with the same credit, the first.
        chosen = max(instances, key=lambda each: credit[each.id])
        credit[chosen.id] -= sum(each.weight for each in instances)
        self._credit = credit
        return chosen


@final
class WeightedRandom:
    """Any, with the probability of its weight.

    Args:
        rng: where chance comes from.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()  # noqa: S311 - no secret

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """See `Strategy`."""
        return self._rng.choices(instances, [each.weight for each in instances])[0]


@final
class LeastLoaded:
    """The one with the least published load, relative to its weight; any of them if several have.

    An instance that publishes none counts as having the average of those that do.

    Published loads are always a little old, and all clients see the same: many of them together run
    over whoever was idle a second ago. With `sample=2`, the less loaded of two that were chosen by
    chance is taken: that spreads them nearly as well, without the stampede.

    Args:
        rng: where chance comes from.
        sample: how many are compared, chosen by chance; all by default.
    """

    def __init__(self, rng: random.Random | None = None, *, sample: int | None = None) -> None:
        if sample is not None and not (type(sample) is int and sample >= 1):
            raise ConfigurationError(f"sample: must be 1 or more, or None, not {described(sample)}")
        self._rng = rng or random.Random()  # noqa: S311 - no secret
        self._sample = sample

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """See `Strategy`."""
        told = [each.load / each.weight for each in instances if each.load is not None]
        average = sum(told) / len(told) if told else 0.0
        compared = instances
        if self._sample is not None and self._sample < len(instances):
            compared = self._rng.sample(instances, self._sample)
        loads = [average if each.load is None else each.load / each.weight for each in compared]
        least = min(loads)
        best = [each for each, load in zip(compared, loads, strict=True) if load <= least]
        return self._rng.choice(best)


@final
class ConsistentHash:
    """Always the same one for the same key, as long as it is there: rendezvous hashing, by weight.

    When an instance comes or goes, only the keys move that it gets, or had; a change of weight
    moves the difference. Every client on every machine chooses alike.
    """

    def choose(self, instances: Sequence[ServiceInstance], key: str | None) -> ServiceInstance:
        """See `Strategy`.

        Raises:
            UsageError: there is no key.
        """
        if key is None:
            raise UsageError("ConsistentHash: pick() needs a key")
        return max(instances, key=lambda each: -each.weight / math.log(score(key, each.id)))
