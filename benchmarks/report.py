"""The report of a run, as Markdown; the pictures that it shows lie beside it."""

from __future__ import annotations

from . import bars, curves
from .peers.registry import PEERS
from .results import Results
from .rows import COMPARED, OURS, ROWS, cell
from .site import ALL_SETTINGS
from .workloads import (
    WORKLOADS,
    Column,
    Workload,
    connecting,
    crowd,
    handover,
    idle,
    locks,
    operations,
)

SUBJECTS = {
    "reads-and-writes": ("Reads and writes", operations, ("throughput",)),
    "locks": ("Locks", locks, ()),
    "hand-over": ("Hand-over", handover, ("hand-over",)),
    "contenders": ("Crowds of contenders", crowd, ("herd",)),
    "connecting": ("Connecting and recovering", connecting, ()),
    "idle-and-memory": ("Idle clients and memory", idle, ("memory",)),
}
"""The sections of the report: title, the module of the workloads, pictures."""

_TARGETS = "Targets: medians of one run against `limit`, or as the line says.\n"


def reason_not_to_quote(results: Results) -> str | None:
    """Why numbers of this run do not belong on a page; None if they may be quoted.

    A run counts if it is of full scale, has all workloads of its settings, and had the machine for
    itself.
    """
    if results.scale != "full":
        return f"its scale is {results.scale}, not full"
    if not results.is_quiet:
        shares = " and ".join(f"{share:.0%}" for share in results.busy) or "an unknown share"
        return f"others used {shares} of the machine, before and after"
    missing = [f"{name} ({setting})" for setting, name in _missing(results)]
    if missing or not results.samples:
        return f"it lacks {', '.join(missing) or 'everything'}"
    return None


def _missing(results: Results) -> list[tuple[str, str]]:
    """The workloads that a run lacks in the settings that it has."""
    done = {(each.setting, each.workload) for each in (*results.samples, *results.failures)}
    done |= {(setting, name) for setting, name in results.skipped}
    settings = {setting for setting, _ in done}
    return [
        (setting, name)
        for setting in ALL_SETTINGS
        if setting in settings
        for name, workload in WORKLOADS.items()
        if setting in workload.settings and (setting, name) not in done
    ]


def markdown(results: Results) -> str:
    """All of it, in one text."""
    reason = reason_not_to_quote(results)
    parts = [
        f"# Benchmarks\n\n{_machine(results)}{_networks(results)}",
        *([f"Do not quote these numbers: {reason}.\n"] if reason else []),
        f"## Comparison\n\n![comparison](performance.svg)\n\n{table(results)}",
        f"## Failures\n\n{_failures(results)}",
        f"## Not measured\n\n{_not_measured(results)}",
        f"## Targets\n\n{_TARGETS}\n{bars.table(results)}",
        _curves(results),
    ]
    return "\n".join([*parts, *(_workloads(subject, results) for subject in SUBJECTS)])


def _machine(results: Results) -> str:
    machine, versions = results.machine, results.versions
    libraries = _libraries({name: said for name, said in versions.items() if name in PEERS})
    by = ", ".join(f"{name} {version}" for name, version in libraries.items())
    rounds = f"{results.rounds} rounds" if results.rounds != 1 else "one round"
    when = (
        f"* Run of {results.begun.replace('T', ' ')[:16]} UTC, {rounds}, scale {results.scale}; "
        f"others used {_busy(results)} of the machine before and after."
    )
    where = (
        f"* {machine['processor']}, {machine['cores']} cores for servers, network and peers alike; "
        f"{machine['memory']};\n  {machine['disk']}; {machine['system']}."
    )
    lines = [
        when,
        where,
        f"* {machine['python']}; ZooKeeper {versions.get('zookeeper', 'unknown')}; {by}.",
    ]
    settings = {sample.setting for sample in results.samples}
    missing = [name for name in ALL_SETTINGS if name not in settings]
    if missing:
        lines.append(f"* Not run: {', '.join(missing)}.")
    absent = [name for name in COMPARED if name not in versions]
    if absent:
        lines.append(f"* Not there: {', '.join(absent)}.")
    return "\n".join(lines) + "\n"


def _networks(results: Results) -> str:
    lines = []
    for setting, took in results.networks.items():
        direct, forwarded, delayed = (
            1000 * took[key] for key in ("direct", "forwarded", "delayed")
        )
        lines.append(
            f"* {setting}: a read of `limit` takes {direct:.2f} ms; {forwarded:.2f} ms through the "
            f"forwarder without a delay; {delayed:.2f} ms with it, which is a round trip there."
        )
    return "".join(f"{line}\n" for line in lines)


def _libraries(versions: dict[str, str]) -> dict[str, str]:
    """One for each library, and not for each event loop that it ran on."""
    found = {PEERS[name].library: version for name, version in versions.items()}
    found.pop("limit", None)
    return found


def _busy(results: Results) -> str:
    return " and ".join(f"{share:.0%}" for share in results.busy) or "an unknown share"


def _failures(results: Results) -> str:
    if not results.failures:
        return "No peer has failed at anything.\n"
    lines = ["| peer | at | where | what | to repeat it |", "|---|---|---|---|---|"]
    lines += [
        f"| {each.peer} | {each.workload} | {each.setting} | {_cell(each.what)} | `{each.again}` |"
        for each in results.failures
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_TITLES = {
    "limit": "limit",
    "aiolead": "aiolead, asyncio",
    "aiolead-uvloop": "aiolead, uvloop",
    "aiolead-trio": "aiolead, trio",
    "kazoo": "kazoo",
    "aiozk": "aiozk",
    "curator": "Curator, warm",
    "go": "Go",
}


def table(results: Results) -> str:
    """The comparison: a row for each measure, a column for each peer."""
    names = (*OURS, *COMPARED)
    lines = [
        f"| | {' | '.join(_TITLES[name] for name in names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    lines += [
        f"| {' | '.join([row.title, *(cell(results, row, name) for name in names)])} |"
        for row in ROWS
    ]
    return "\n".join(lines) + "\n"


def _not_measured(results: Results) -> str:
    lacks = sorted({*_missing(results), *((s, w) for s, w in results.skipped)})
    if not lacks:
        return "Everything was measured.\n"
    by_setting = {
        setting: [name for where, name in lacks if where == setting] for setting in ALL_SETTINGS
    }
    return "".join(f"* {s}: {', '.join(names)}\n" for s, names in by_setting.items() if names)


def _curves(results: Results) -> str:
    about = (
        "# Curves\n\n"
        "How time, memory and traffic grow with the number of something: one server, no delay, one "
        "round.\nThe exponent is the slope where both are logarithms, from a hundredth of the "
        "peer's largest\nsize on: 0 is constant, 1 linear, 2 quadratic.\n"
    )
    return "\n".join([about, *(curves.section(curve, results) for curve in curves.CURVES)])


def _workloads(subject: str, results: Results) -> str:
    """The workloads of a subject, and their tables."""
    title, module, pictures = SUBJECTS[subject]
    sections = [f"# {title}\n"]
    sections += [f"![{name}]({name}.svg)\n" for name in pictures]
    for workload in module.WORKLOADS:
        if not results.settings(workload.name) or workload.is_curve:
            continue
        section = f"## {workload.title} (`{workload.name}`)\n\n{workload.about}\n"
        for setting in results.settings(workload.name):
            where = ALL_SETTINGS[setting].title
            table = _table(workload, setting, results)
            section += f"\n{where[0].upper()}{where[1:]}:\n\n{table}"
        sections.append(section)
    return "\n".join(sections)


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
