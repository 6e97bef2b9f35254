"""Faults that belong together. Each of their parts may be left out when a schedule is shrunk."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from .model import MANY, Composite, Fault, Target


def _parts(kind: str, spans: Sequence[tuple[float, float, str]], amount: float) -> list[Fault]:
    return [
        Fault(number=0, kind=kind, start=start, duration=max(0.001, span), target=to, amount=amount)
        for start, span, to in spans
    ]


def _swizzle(rng: random.Random, start: float, timeout: float) -> list[Fault]:
    """Clogs processes one by one, and unclogs them in another order."""
    kind = rng.choice(("link-stalled", "link-silent-up", "link-silent-down", "link-half-open"))
    count = rng.randint(2, 4)
    begins = [start + n * rng.uniform(0.0, timeout / 8) for n in range(count)]
    ends = [begins[-1] + rng.uniform(0.05, 1.0) * timeout for _ in range(count)]
    first = rng.randrange(MANY)
    spans = [(b, e - b, f"p{first + n}") for n, (b, e) in enumerate(zip(begins, ends, strict=True))]
    return _parts(kind, spans, rng.random())


def _flapping(rng: random.Random, start: float, timeout: float) -> list[Fault]:
    """The same link, again and again: a period as long as one of the intervals that matter."""
    kinds = ("link-reset", "link-stalled", "link-silent-up", "link-silent-down", "link-refused")
    kind = rng.choice(kinds)
    period = timeout * rng.choice((1 / 8, 1 / 4, 1 / 3, 1 / 2, 1.0)) * rng.uniform(0.9, 1.1)
    share = rng.uniform(0.2, 0.8)
    target = Target.PROCESS.draw(rng)
    count = rng.randint(2, 6)
    spans = [(start + n * period, share * period, target) for n in range(count)]
    return _parts(kind, spans, rng.random())


def _flapping_peers(rng: random.Random, start: float, timeout: float) -> list[Fault]:
    """A link between servers holds everything back, again and again; at the end it may break."""
    kind = rng.choice(("isolated", "deaf", "mute", "apart-from-leader", "apart-from-leader"))
    target = rng.choice(("of-holder", "of-waiter", "follower", "leader", f"s{rng.randrange(MANY)}"))
    way = rng.random()
    faults: list[Fault] = []
    begin = start
    for _ in range(rng.randint(2, 5)):
        span = rng.choice((0.1, 0.3, 0.6, 1.0)) * rng.uniform(0.8, 1.4) * timeout
        # Kept: what was held back arrives.
        faults += _parts(kind, [(start, span, target)], 0.6 * way)
        # A heal may last for a moment only: for no more than a packet or two.
        pause = rng.choice((0.0005, 0.002, 0.01, timeout / 16, timeout / 4))
        start += span + pause * rng.uniform(0.5, 1.5)
    if rng.random() < 0.5:
        span = rng.uniform(0.3, 2.0) * timeout
        faults += _parts(kind, [(start, span, target)], 0.6 + 0.4 * way)
        start += span
    return [*_pinned(rng, begin, start), *faults]


def _pinned(rng: random.Random, start: float, end: float) -> list[Fault]:
    """Now and then, clients cannot turn to another server."""
    if rng.random() < 0.6:
        return []
    return _parts("link-pinned", [(start, end - start, rng.choice(("all", "holder")))], 0.5)


def _rolling(
    rng: random.Random, start: float, timeout: float
) -> Iterator[tuple[float, float, str]]:
    down = rng.uniform(0.02, 0.5) * timeout
    pause = rng.uniform(0.0, 0.5) * timeout
    for server in range(3):
        yield start + server * (down + pause), down, f"s{server}"


def _rolling_restart(rng: random.Random, start: float, timeout: float) -> list[Fault]:
    """Every server is restarted, one after the other."""
    return _parts("server-killed", list(_rolling(rng, start, timeout)), rng.random())


def _leaders_die(rng: random.Random, start: float, timeout: float) -> list[Fault]:
    """The leader of the ensemble is killed, several times."""
    pause = rng.uniform(0.15, 0.6) * timeout
    down = rng.uniform(0.05, 1.0) * timeout
    spans = [(start + n * pause, down, "leader") for n in range(rng.randint(2, 4))]
    return _parts("server-killed", spans, rng.random())


def _cut_and_die(rng: random.Random, start: float, timeout: float) -> list[Fault]:
    """The holder's server is isolated from its peers; then it dies, or the holder's link does."""
    after = rng.uniform(0.0, 0.5) * timeout
    span = rng.uniform(0.5, 2.0) * timeout
    kind = rng.choice(("server-killed", "link-reset", "link-stalled", "server-frozen"))
    target = "of-holder" if kind.startswith("server") else "holder"
    return [
        *_pinned(rng, start, start + span),
        *_parts("isolated", [(start, span, "of-holder")], rng.random()),
        *_parts(kind, [(start + after, span - after, target)], rng.random()),
    ]


def _handed_over_amid(rng: random.Random, start: float, timeout: float) -> list[Fault]:
    """The waiter's server is isolated or dies, just as the holder goes."""
    blow = rng.choice(("isolated", "server-killed", "server-frozen"))
    gone = rng.choice(("cancelled", "process-killed", "session-ended", "link-half-open"))
    gap = rng.uniform(-0.01, 0.01)
    span = rng.uniform(0.3, 2.0) * timeout
    return [
        *_parts(gone, [(start, span, "holder")], rng.random()),
        *_parts(blow, [(max(0.0, start + gap), span, "of-waiter")], rng.random()),
    ]


def _everybody_at_once(rng: random.Random, start: float, timeout: float) -> list[Fault]:
    """All links break, and again while everybody reconnects."""
    pause = rng.choice((0.001, 0.01, 0.05, 0.2)) * rng.uniform(0.5, 2.0)
    spans = [(start + n * pause, 0.001, "all") for n in range(rng.randint(1, 4))]
    return _parts("link-reset", spans, rng.random())


def _lost_create(rng: random.Random, start: float, timeout: float) -> list[Fault]:
    """The answer to a create is lost, and then something else."""
    then = rng.choice(("list-answer-lost", "link-reset", "cancelled", "connect-answer-lost"))
    gap = rng.uniform(0.0, 0.1) * timeout
    return [
        *_parts("create-answer-lost", [(start, timeout, "")], rng.random()),
        *_parts(then, [(start + gap, timeout, "all" if then == "link-reset" else "p0")], 0.3),
    ]


def _hands_change(rng: random.Random, start: float, timeout: float) -> list[Fault]:
    """The leader stops and goes on; meanwhile, and after it, requests are not answered."""
    span = rng.uniform(0.1, 1.2) * timeout
    kind = rng.choice(("request-skipped", "request-skipped", "request-swallowed"))
    begins = [start + rng.uniform(0.0, 1.5) * span for _ in range(rng.randint(1, 4))]
    spans = [
        (begin, rng.uniform(0.1, 1.0) * timeout, rng.choice(("all", "holder", "waiter", "p0")))
        for begin in begins
    ]
    return [
        *_parts("server-frozen", [(start, span, "leader")], rng.random()),
        *_parts(kind, spans, rng.random()),
    ]


COMPOSITES: dict[str, Composite] = {
    composite.name: composite
    for composite in (
        Composite("swizzle", "links are clogged one by one, unclogged in any order", _swizzle),
        Composite("flapping", "a link fails again and again", _flapping, 1.0),
        Composite(
            "flapping-peers",
            "a link between servers holds everything back, again and again",
            _flapping_peers,
            1.5,
        ),
        Composite("rolling-restart", "each server is restarted in turn", _rolling_restart),
        Composite("leaders-die", "the leader is killed, several times", _leaders_die),
        Composite("cut-and-die", "a holder's server is isolated, then dies", _cut_and_die, 1.0),
        Composite(
            "amid-handover",
            "the next one's server fails as the holder goes",
            _handed_over_amid,
            1.0,
        ),
        Composite("everybody-at-once", "all links break, again and again", _everybody_at_once),
        Composite("lost-create", "a create's answer is lost, and then more", _lost_create),
    )
}
"""Every composite, by its name."""

HANDS_CHANGE = Composite(
    "hands-change", "the leader stops and goes on, and requests are skipped", _hands_change, 2.0
)
"""It came later than the others; see `faults.STREAMS`."""
