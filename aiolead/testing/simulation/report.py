"""The result of a soak, as a page with a picture."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from .tally import Tally

BINS = 120


def write_report(
    directory: Path,
    total: Tally,
    *,
    scenarios: Sequence[str],
    seeds: Mapping[str, range],
    seconds: float,
    workers: int,
    situations: Collection[str],
) -> Path:
    """Writes `report.md`, and `margins.svg` where matplotlib is there.

    Args:
        directory: where to; created if it is missing.
        total: the findings.
        scenarios: the scenarios.
        seeds: which seeds, by event loop.
        seconds: how long it took, in real time.
        workers: how many processes did it.
        situations: the rare situations that should be reached.

    Returns:
        The page.
    """
    directory.mkdir(parents=True, exist_ok=True)
    rate = 60 * total.total / seconds if seconds else 0.0
    summary = (
        f"{total.total} schedules of {', '.join(scenarios)} in {seconds / 60:.1f} minutes with "
        f"{workers} processes: {rate:.0f} a minute. {total.virtual / 3600:.1f} hours passed in "
        "the simulated worlds."
    )
    lines = ["# Simulation report", "", summary, ""]
    lines += [f"Commit: {_commit()}.", ""]
    lines += [f"**{len(total.failures)} schedules with violations.**", ""]
    lines += ["| event loop | schedules | seeds |", "|---|---|---|"]
    for backend, numbers in sorted(seeds.items()):
        span = f"{numbers.start} to {numbers.stop - 1}"
        lines.append(f"| {backend} | {total.schedules[backend]} | {span} |")
    lines += ["", "## Violations", ""]
    for failure in total.failures:
        lines += [f"* {text}" for text in failure.violations]
        lines += ["", f"      {failure.replay}", ""]
    if not total.failures:
        lines.append("None.")
    lines += ["", "## The margin of safety", "", *_margins(directory, total.margins), ""]
    lines += ["## Situations", "", "| situation | times | schedules |", "|---|---|---|"]
    for name in sorted({*situations, *total.seen}, key=lambda name: total.reached_in[name]):
        lines.append(f"| {name} | {total.seen[name]} | {total.reached_in[name]} |")
    lines += ["", "## Faults", "", "| kind | times |", "|---|---|"]
    lines += [f"| {kind} | {count} |" for kind, count in total.faults.most_common()]
    page = directory / "report.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page


def _commit() -> str:
    """The simulated commit, if the current directory is a checkout."""
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12")
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return told.stdout.strip()


def _margins(directory: Path, margins: Sequence[float]) -> list[str]:
    intro = (
        "How long before the servers deleted its znode each holder that lost its tenure had "
        "stopped, in seconds:"
    )
    if len(margins) < 2:
        return ["No holder has lost its tenure."]
    cuts = statistics.quantiles(margins, n=1000, method="inclusive")
    figures = (
        f"| {len(margins)} | {min(margins):.4f} | {cuts[0]:.4f} | {cuts[9]:.4f} | "
        f"{cuts[99]:.4f} | {cuts[499]:.4f} | {max(margins):.4f} |"
    )
    lines = [intro, "", "| losses | least | 0.1 % | 1 % | 10 % | median | most |"]
    lines += ["|---|---|---|---|---|---|---|", figures, ""]
    if _plot(directory / "margins.svg", margins):
        lines.append("![The distribution of the margin](margins.svg)")
    else:
        lines.append("(No picture: matplotlib is not there; `pip install --group soak`.)")
    return lines


def _plot(path: Path, margins: Sequence[float]) -> bool:
    try:
        from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]
    except ImportError:
        return False
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.hist(margins, bins=BINS, log=True, color="#3b6ea5")
    axes.axvline(0.0, color="#c0392b", linewidth=1.5)
    axes.set_xlabel("from the end of the body to the deletion of its znode, in seconds")
    axes.set_ylabel("lost tenures")
    axes.set_title(f"Margin of safety: {len(margins)} lost tenures, least {min(margins):.3f} s")
    figure.savefig(path)
    return True
