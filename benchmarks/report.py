"""What a run has found, as Markdown; and the page in docs/reports that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from . import bars
from .peers.registry import PEERS
from .results import Results
from .site import ALL_SETTINGS
from .workloads import WORKLOADS, Column, Workload

DOCS = Path(__file__).parents[1] / "docs" / "reports"
PAGE = DOCS / "performance.md"
DATA = DOCS / "performance.json"
"""What the page shows, without the single latencies."""

END = "<!-- end of results -->"
_BLOCK = re.compile(rf"(<!-- results: (\S+) -->\n).*?({re.escape(END)})", re.DOTALL)

PICTURES = (
    ("performance/handover.svg", "the distribution of hand-over latencies"),
    ("performance/contenders.svg", "bytes and time by the number of contenders"),
    ("performance/herd.svg", "watching the parent against watching the predecessor"),
    ("performance/throughput.svg", "operations a second"),
    ("performance/memory.svg", "memory of libraries, clients, waiters and watches"),
)

NOTHING = (
    "**Nothing was measured for this page yet.** Numbers come from a full run (`make bench`) on a "
    "machine that does nothing else; there was none so far.\n"
)


class NotPublishableError(Exception):
    """A run whose numbers do not belong on the page."""


def check_publishable(results: Results) -> None:
    """Returns if a run belongs on the page.

    Raises:
        NotPublishableError: it was not of all workloads, where it was, or the machine was busy.
    """
    if results.scale != "full":
        raise NotPublishableError(f"its scale is {results.scale}, not full")
    if not results.is_quiet:
        shares = " and ".join(f"{share:.0%}" for share in results.busy) or "an unknown share"
        raise NotPublishableError(f"others used {shares} of the machine, before and after")
    done = {(each.setting, each.workload) for each in (*results.samples, *results.failures)}
    missing = [
        f"{name} ({setting})"
        for setting in sorted({setting for setting, _ in done})
        for name, workload in WORKLOADS.items()
        if setting in workload.settings and (setting, name) not in done
        if not workload.is_of_threads  # a run of its own
    ]
    if missing or not done:
        raise NotPublishableError(f"it lacks {', '.join(missing) or 'everything'}")


def markdown(results: Results) -> str:
    """All of it, on one page."""
    headings = {"machine": "# Benchmarks", "bars": "## Bars", "failures": "## Failures"}
    parts = [f"{heading}\n\n{block(name, results)}" for name, heading in headings.items()]
    return "\n".join([*parts, f"## Workloads\n\n{block('workloads', results)}"])


def rendered(page: str, results: Results | None) -> str:
    """A page with its blocks made anew.

    Raises:
        KeyError: there is no block of that name.
    """
    return _BLOCK.sub(lambda match: f"{match[1]}{block(match[2], results)}{match[3]}", page)


def published() -> Results | None:
    """What the page shows; None before there was anything."""
    return Results.load(DATA) if DATA.exists() else None


def write_page() -> None:
    """Makes the page's blocks anew."""
    PAGE.write_text(rendered(PAGE.read_text("utf-8"), published()), "utf-8")


def block(name: str, results: Results | None) -> str:
    """What stands in a block of that name."""
    return BLOCKS[name](results)


def _machine(results: Results | None) -> str:
    if results is None:
        return NOTHING
    machine, versions = results.machine, results.versions
    on = f"{machine['processor']}, {machine['cores']} cores for servers, network and peers alike"
    libraries = _libraries({name: said for name, said in versions.items() if name in PEERS})
    by = ", ".join(f"{name} {version}" for name, version in libraries.items())
    when = f"Scale {results.scale}, {results.rounds} rounds (see below), {results.begun}"
    lines = [
        f"* {on}; {machine['memory']}; {machine['disk']}; {machine['system']}.",
        f"* {machine['python']}; ZooKeeper {versions.get('zookeeper', 'unknown')}; {by}.",
        f"* {when}; others used {_busy(results)} of the machine before and after.",
    ]
    settings = {sample.setting for sample in results.samples}
    missing = [name for name in ALL_SETTINGS if name not in settings]
    if missing:
        lines.append(f"* Not run: {', '.join(missing)}.")
    for setting, took in results.networks.items():
        direct, forwarded, delayed = (
            1000 * took[key] for key in ("direct", "forwarded", "delayed")
        )
        lines.append(
            f"* {setting}: a read of `limit` takes {direct:.2f} ms; {forwarded:.2f} ms through the "
            f"forwarder without a delay; {delayed:.2f} ms with it, which is a round trip there."
        )
    return "\n".join(lines) + "\n"


def _libraries(versions: dict[str, str]) -> dict[str, str]:
    """One for each library, and not for each event loop that it ran on."""
    found = {PEERS[name].library: version for name, version in versions.items()}
    found.pop("limit", None)
    return found


def _busy(results: Results) -> str:
    return " and ".join(f"{share:.0%}" for share in results.busy) or "an unknown share"


def _failures(results: Results | None) -> str:
    if results is None:
        return "There was no run yet.\n"
    if not results.failures:
        return "Nobody has failed at anything.\n"
    lines = ["| peer | at | where | what | to repeat it |", "|---|---|---|---|---|"]
    lines += [
        f"| {each.peer} | {each.workload} | {each.setting} | {_cell(each.what)} | `{each.again}` |"
        for each in results.failures
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _pictures(results: Results | None) -> str:
    return "" if results is None else "".join(f"![{text}]({file})\n" for file, text in PICTURES)


def _workloads(results: Results | None) -> str:
    """What each of them is, and its tables."""
    sections = []
    for workload in WORKLOADS.values():
        if results is not None and not results.settings(workload.name):
            continue
        section = f"### {workload.title} (`{workload.name}`)\n\n{workload.about}\n"
        if results is not None:
            for setting in results.settings(workload.name):
                title = ALL_SETTINGS[setting].title
                table = _table(workload, setting, results)
                section += f"\n{title[0].upper()}{title[1:]}:\n\n{table}"
        sections.append(section)
    return "\n" + "\n".join(sections) + "\n"


def _table(workload: Workload, setting: str, results: Results) -> str:
    peers = results.peers(setting, workload.name)
    columns = [
        column
        for column in workload.columns
        if any(results.values(setting, workload.name, peer, column.key) for peer in peers)
    ]
    head = ["peer", *(column.title for column in columns), "x limit", "x best peer"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name in PEERS:
        if name in peers:
            medians = [
                _shown(column, results.median(setting, workload.name, name, column.key))
                for column in columns
            ]
            ratios = _ratios(workload, setting, name, results)
            lines.append(f"| {' | '.join([name, *medians, *ratios])} |")
    return "\n".join(lines) + "\n"


def _shown(column: Column, number: float | None) -> str:
    return "" if number is None else f"{number * column.scale:,.{column.digits}f}"


def _ratios(workload: Workload, setting: str, name: str, results: Results) -> tuple[str, str]:
    """Of the first column: to the limit on the same loop, and for aiolead to the best peer."""
    column = workload.columns[0]

    def median(peer: str) -> float | None:
        return results.median(setting, workload.name, peer, column.key)

    mine, limit = median(name), median(PEERS[name].limit)
    pick = max if column.better == "more" else min
    others = [median(kind.name) for kind in PEERS.values() if kind.is_rival]
    best = pick((number for number in others if number is not None), default=None)
    to_limit = "" if name == PEERS[name].limit else _ratio(mine, limit)
    return to_limit, _ratio(mine, best) if PEERS[name].is_ours else ""


def _ratio(mine: float | None, other: float | None) -> str:
    return f"{mine / other:.2f}" if mine is not None and other else ""


BLOCKS: dict[str, Callable[[Results | None], str]] = {
    "machine": _machine,
    "bars": bars.table,
    "failures": _failures,
    "pictures": _pictures,
    "workloads": _workloads,
}
