"""Half a tick of the servers, as a client waits for it: the one place that says how long."""

RESERVE = 1 / (1 - 0.001)
"""The wait for half a tick, as a multiple of it: clocks differ by up to 0.1 %."""


def waited(half_tick: float) -> float:
    """How long a client waits, by its own clock, for `half_tick` of the servers' time."""
    return half_tick * RESERVE
