"""`aiolead demo herd`: clients that wake at each departure, by the znode that they watch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from . import exits, render
from .options import BASICS, Basics, check_range
from .output import table, write_json, write_line

if TYPE_CHECKING:
    from .herd_measurement import Result

LARGEST = 1000
BAR = 40
"""The longest bar, in columns."""


def herd(
    *,
    sizes: tuple[int, ...] = (2, 10, 50, 200),
    picture: Path | None = None,
    basics: Basics = BASICS,
) -> int:
    """Show the herd effect: how many clients wake when a leader leaves.

    Contenders with a session each elect a leader on a server in memory. Where each watches the
    parent, every departure wakes all of them, and each lists all the others. Where each watches its
    predecessor, as with aiolead, it wakes the next leader, and the one behind that.

    With --json, one object for each measurement: watching, contenders, woken (other clients that
    are notified), notifications, requests, bytes_in, bytes_out, next_leader_after (seconds).

    Args:
        sizes: How many contend; several times for several measurements.
        picture: Draw the result to this file as well (SVG or PNG); needs matplotlib.
        basics: How to run.
    """
    for size in sizes:
        check_range(2, LARGEST, sizes=size)
    from .herd_measurement import (  # a server, which other commands do not need
        WAYS,
        on_embedded,
        plot,
    )

    results: list[Result] = []

    async def work() -> None:
        for size in sizes:
            for way in WAYS:
                results.append(await on_embedded(way, size))
                if basics.as_json:
                    write_json(_as_json(results[-1]))

    code = basics.run_until_signal(work)
    if code != exits.OK:
        return code
    if not basics.as_json:
        for line in _as_text(results):
            write_line(line)
    if picture is not None:
        try:
            plot(results, picture)
        except ImportError:
            raise ConfigurationError(
                "--picture: needs matplotlib: pip install matplotlib"
            ) from None
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"--picture: cannot write {picture}: {error}") from None
    return exits.OK


_HEADINGS = (
    *("contenders", "watching", "clients that wake", "requests", "bytes from the server"),
    "next leader after",
)


def _as_text(results: Sequence[Result]) -> list[str]:
    rows = [
        [
            *(str(each.contenders), f"the {each.way}", f"{each.woken:,}"),
            *(f"{each.traffic.requests:,}", f"{each.traffic.bytes_out:,}"),
            f"{each.seconds * 1000:.1f} ms",
        ]
        for each in results
    ]
    right = tuple(name for name in _HEADINGS if name != "watching")
    most = max(each.woken for each in results)
    lines = [*table(_HEADINGS, rows, right=right), "", "clients that wake when the leader leaves"]
    for each in results:
        bar = "#" * max(1, round(BAR * each.woken / most)) if each.woken else ""
        lines.append(f"{each.contenders:>5}  {each.way:<11}  {bar} {each.woken}")
    return lines


def _as_json(each: Result) -> dict[str, Any]:
    return {
        "watching": each.way,
        "contenders": each.contenders,
        "woken": each.woken,
        "notifications": each.traffic.events,
        "requests": each.traffic.requests,
        "bytes_in": each.traffic.bytes_in,
        "bytes_out": each.traffic.bytes_out,
        "next_leader_after": render.rounded(each.seconds),
    }
