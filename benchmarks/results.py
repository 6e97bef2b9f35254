"""The results of a run, and the file of JSON that keeps them."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one peer.

    Attributes:
        workload: the work.
        setting: the servers.
        peer: the peer.
        round: the number of the round; all peers do the same in each, in another order.
        values: the results by name.
        took: how long it took in all, in seconds.
    """

    workload: str
    setting: str
    peer: str
    round: int
    values: dict[str, Any]
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of a peer.

    Attributes:
        what: the error, in words.
        again: the command that repeats it.
    """

    workload: str
    setting: str
    peer: str
    round: int
    what: str
    again: str


@dataclass
class Results:
    """A run.

    Attributes:
        begun: when, in UTC.
        scale: how much of it; see `workloads.model.Scale`.
        seed: of the order of the peers.
        rounds: how often each peer did everything.
        machine: the properties of the machine.
        versions: those of all peers and servers.
        busy: how much of the machine others used just before, and just after: 0 to 1.
        networks: the time of a read, by setting: `direct`, `forwarded`, with the delay `delayed`.
        samples: all of them.
        failures: all of them.
        skipped: settings and workloads for which there was no time.
        herd: the counts of `herd.py`.
    """

    begun: str
    scale: str
    seed: int
    rounds: int
    machine: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    busy: list[float] = field(default_factory=list)
    networks: dict[str, dict[str, float]] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    skipped: list[list[str]] = field(default_factory=list)
    herd: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Thousands of samples are asked for again and again.
        self._by_place: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        self._indexed = 0

    @property
    def is_quiet(self) -> bool:
        """Whether hardly anything else was running, as far as was looked."""
        return len(self.busy) == 2 and max(self.busy) < QUIET

    def values(self, setting: str, workload: str, peer: str, key: str) -> list[Any]:
        """One value from all rounds."""
        if self._indexed != len(self.samples):
            self._by_place.clear()
            for sample in self.samples:
                place = sample.setting, sample.workload, sample.peer
                self._by_place.setdefault(place, []).append(sample.values)
            self._indexed = len(self.samples)
        found = self._by_place.get((setting, workload, peer), [])
        return [values[key] for values in found if key in values]

    def median(self, setting: str, workload: str, peer: str, key: str) -> float | None:
        """Of all rounds; None where nothing was measured."""
        values = self.values(setting, workload, peer, key)
        return statistics.median(values) if values else None

    def peers(self, setting: str, workload: str) -> list[str]:
        """The peers with measurements there."""
        found = (s.peer for s in self.samples if (s.setting, s.workload) == (setting, workload))
        return list(dict.fromkeys(found))

    def settings(self, workload: str) -> list[str]:
        """Where it was done."""
        found = (s.setting for s in self.samples if s.workload == workload)
        return list(dict.fromkeys(found))

    def save(self, file: Path) -> None:
        """Writes it; a file that is there is replaced at the end of it."""
        beside = file.with_name(file.name + ".part")
        beside.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1), "utf-8")
        beside.replace(file)

    @classmethod
    def load(cls, file: Path) -> Self:
        """Reads it.

        Raises:
            ValueError: it is of another format.
        """
        told = json.loads(file.read_text("utf-8"))
        if told.pop("format", None) != FORMAT:
            raise ValueError(f"{file} is not of the format {FORMAT}: run the benchmarks again")
        told["samples"] = [Sample(**each) for each in told["samples"]]
        told["failures"] = [Failure(**each) for each in told["failures"]]
        return cls(**told)


QUIET = 0.1
"""The most of a machine that others may use while it counts as quiet."""
