"""The results of a run as pictures. They need matplotlib: the group `bench`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .curves import CURVES, Curve
from .peers.registry import PEERS
from .results import Results
from .rows import COMPARED, ROWS, ratio

_DELAY = "standalone+delay"
_RATES = (
    ("sequential-get", "per_second", "reads, one by one"),
    ("pipelined", "create_per_second", "creates, 1,000 at once"),
    ("pipelined", "get_per_second", "reads, 1,000 at once"),
    ("lock-cycles", "per_second", "lock cycles"),
    ("locks-at-once", "per_second", "50 locks at once"),
)
_COLOURS = {
    "limit": "0.55",
    "aiolead": "tab:red",
    "kazoo": "tab:blue",
    "aiozk": "tab:green",
    "curator": "tab:orange",
    "go": "tab:purple",
}
_MARKERS = ("|", "o", "s", "x", "+")
_MOST_POINTS = 150
_LINES = {"asyncio": "-", "threads": "-", "uvloop": "--", "trio": ":"}


def draw(results: Results, folder: Path) -> list[Path]:
    """Draws what there are numbers for; the files.

    Raises:
        ImportError: there is no matplotlib.
    """
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    # Texts as texts make the files small, and a fixed salt the same each time.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "aiolead"}):
        for name, make in _PICTURES.items():
            figure = make(results)
            if figure is not None:
                file = folder / f"{name}.svg"
                figure.savefig(file, metadata={"Date": None})
                files.append(file)
    return files


def _figure(panels: int, width: float = 4.5) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * panels, 4), layout="constrained")
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def _style(peer: str) -> dict[str, str]:
    kind = PEERS[peer]
    line = "-." if kind.is_cold else _LINES[kind.loop]
    return {"label": peer, "color": _COLOURS[kind.library], "linestyle": line}


def _handover(results: Results) -> Any:
    """How the latencies of hand-overs are distributed."""
    pooled = {
        (setting, peer): sorted(
            1000 * latency
            for each in results.values(setting, "handover-10", peer, "latencies")
            for latency in each
        )
        for setting in ("standalone", _DELAY)
        for peer in results.peers(setting, "handover-10")
    }
    where = list(dict.fromkeys(setting for (setting, _), found in pooled.items() if found))
    if not where:
        return None
    figure, panels = _figure(len(where))
    for setting, axes in zip(where, panels, strict=True):
        for peer in results.peers(setting, "handover-10"):
            if found := pooled[setting, peer]:
                # So many points that the picture stays small.
                points = range(0, len(found), len(found) // _MOST_POINTS + 1)
                shares = [(i + 1) / len(found) for i in points]
                axes.step([found[i] for i in points], shares, where="post", **_style(peer))
        axes.set(xscale="log", xlabel="ms", ylabel="share of hand-overs", title=setting)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
    return figure


def _series(
    results: Results, names: dict[int, str], key: str, setting: str = "standalone"
) -> Iterator[tuple[str, list[int], list[float]]]:
    """By peer: sizes, and what was measured for each."""
    for peer in PEERS:
        medians = {n: results.median(setting, name, peer, key) for n, name in names.items()}
        known = {n: value for n, value in medians.items() if value is not None}
        if known:
            yield peer, list(known), list(known.values())


def _curve(curve: Curve) -> Callable[[Results], Any]:
    """How numbers grow, with the exponent of each in the legend."""

    def make(results: Results) -> Any:
        found = [(value, list(curve.series(results, value))) for value in curve.values]
        found = [
            (value, series) for value, series in found if any(len(s.sizes) > 1 for s in series)
        ]
        if not found:
            return None
        figure, panels = _figure(len(found))
        for (value, series), axes in zip(found, panels, strict=True):
            for each in series:
                style = _style(each.peer)
                if each.exponent is not None:
                    style["label"] += f", n^{each.exponent:.2f}"
                axes.plot(each.sizes, each.numbers, marker="o", **style)
            axes.set(xscale="log", yscale="log", xlabel=curve.what, title=value.title)
            axes.grid(visible=True, alpha=0.3)
            axes.legend(fontsize="small")
        figure.suptitle(curve.title)
        return figure

    return make


def summary(results: Results, folder: Path) -> Path | None:
    """Draws the chart of the comparison: aiolead on asyncio beside everybody, row by row."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    libraries = {name: PEERS[name] for name in COMPARED}
    ratios = {
        name: [(i, found) for i, row in enumerate(ROWS) if (found := ratio(results, row, name))]
        for name in libraries
    }
    if not any(ratios.values()):
        return None
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "aiolead"}):
        figure = Figure(figsize=(9, 6), layout="constrained")
        axes = figure.subplots()
        axes.axvline(1, color="black", linewidth=1)
        for (name, found), marker in zip(ratios.items(), _MARKERS, strict=True):
            if found:
                rows, numbers = zip(*found, strict=True)
                colour = _COLOURS[PEERS[name].library]
                axes.plot(
                    numbers, rows, marker, color=colour, markersize=9, markeredgewidth=2, label=name
                )
        axes.set_yticks(range(len(ROWS)), [row.short for row in ROWS])
        axes.invert_yaxis()
        axes.set(
            xscale="log",
            xlabel="how many times better aiolead (asyncio) is; left of the line, it is worse",
            title=f"aiolead beside the limit and other clients, {results.begun[:10]}",
        )
        axes.grid(visible=True, axis="both", alpha=0.3)
        axes.xaxis.set_major_formatter(lambda number, _: f"{number:g}")
        axes.legend(fontsize="small", loc="upper right")
        file = folder / "performance.svg"
        figure.savefig(file, metadata={"Date": None})
    return file


def _herd(results: Results) -> Any:
    """Watching the parent against watching the predecessor."""
    if not results.herd:
        return None
    figure, panels = _figure(2)
    for key, axes in zip(("events", "bytes_out"), panels, strict=True):
        for way in dict.fromkeys(each["way"] for each in results.herd):
            mine = [each for each in results.herd if each["way"] == way]
            sizes = [each["contenders"] for each in mine]
            axes.plot(sizes, [each[key] for each in mine], marker="o", label=f"watching the {way}")
        title = "notifications" if key == "events" else "bytes from the server"
        axes.set(xscale="log", yscale="log", xlabel="contenders", title=f"{title} per hand-over")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
    return figure


def _bars(axes: Any, names: list[str], numbers: list[float], title: str) -> None:
    axes.barh(names, numbers, color=[_COLOURS[PEERS[name].library] for name in names])
    axes.invert_yaxis()
    axes.set_title(title, fontsize="medium")
    axes.grid(visible=True, axis="x", alpha=0.3)


def _throughput(results: Results) -> Any:
    """Operations a second, by what they are."""
    found = [
        (title, {peer: numbers[0] for peer, _, numbers in _series(results, {1: name}, key)})
        for name, key, title in _RATES
    ]
    found = [(title, medians) for title, medians in found if medians]
    if not found:
        return None
    figure, panels = _figure(len(found), width=3.4)
    for (title, medians), axes in zip(found, panels, strict=True):
        _bars(axes, list(medians), list(medians.values()), f"{title}, per second")
    return figure


def _memory(results: Results) -> Any:
    """The memory of the libraries, their clients, waiters and watches."""
    wanted = (
        ("memory", "first", 1e-6, "library and a client, MB"),
        ("memory", "client", 1e-3, "per client, kB"),
        ("memory", "watch", 1.0, "per watch, bytes"),
        ("crowd-3000", "memory", 1e-3, "per waiter (3,000), kB"),
    )
    found = [
        (title, {peer: scale * n[0] for peer, _, n in _series(results, {1: name}, key)})
        for name, key, scale, title in wanted
    ]
    found = [(title, medians) for title, medians in found if medians]
    if not found:
        return None
    figure, panels = _figure(len(found), width=3.4)
    for (title, medians), axes in zip(found, panels, strict=True):
        _bars(axes, list(medians), list(medians.values()), title)
    return figure


_PICTURES: dict[str, Callable[[Results], Any]] = {
    "hand-over": _handover,
    "herd": _herd,
    "throughput": _throughput,
    "memory": _memory,
    **{f"curve-{curve.name}": _curve(curve) for curve in CURVES},
}
