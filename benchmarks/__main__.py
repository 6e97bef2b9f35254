"""`python -m benchmarks run | show | list`; see README.md."""

from __future__ import annotations

import argparse
import math
import resource
import sys
from pathlib import Path

import anyio

from . import herd, plots, report
from .peers.registry import PEERS
from .progress import Progress
from .results import Results
from .run import ROUNDS, Choice, Run, steps_for_progress
from .site import ALL_SETTINGS
from .workloads import WORKLOADS

_HERDS = {"full": herd.SIZES[:-1], "quick": (2, 10, 100), "tiny": (2, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="run | show | list")

    command = commands.add_parser("run", help="measures, and writes a report")
    command.add_argument(
        "--scale", choices=ROUNDS, default="full", help="how much; full by default"
    )
    command.add_argument(
        "--rounds", type=int, default=0, help="how often everybody does everything"
    )
    command.add_argument("--seed", type=int, default=0, help="of the order of the peers")
    for name, known in (("settings", ALL_SETTINGS), ("workloads", WORKLOADS), ("peers", PEERS)):
        command.add_argument(
            f"--{name}", nargs="+", choices=known, default=(), metavar="NAME", help="only these"
        )
    command.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="after so many, only the rows of the comparison are measured; all by default",
    )
    command.add_argument("--out", type=Path, default=Path("benchmark-report"), metavar="FOLDER")
    command.set_defaults(do=_run)

    command = commands.add_parser("show", help="prints the tables of a run")
    command.add_argument("file", type=Path)
    command.set_defaults(do=_show)

    command = commands.add_parser("list", help="says what there is")
    command.set_defaults(do=_list)

    options = parser.parse_args()
    options.do(options)


def _run(options: argparse.Namespace) -> None:
    choice = Choice(
        options.scale,
        options.rounds,
        options.seed,
        tuple(options.settings),
        tuple(options.workloads),
        tuple(options.peers),
    )
    steps = choice.steps()
    if not steps:
        sys.exit("nothing of that is done there: `python -m benchmarks list` says what is")
    _allow_connections()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "results.json"
    run = Run(choice, Progress(steps_for_progress(steps, choice.scale)), file, options.minutes)
    results = run.everything(steps)
    if not choice.workloads:
        results.herd = _herd(options.scale)
        results.save(file)
    (options.out / "results.md").write_text(report.markdown(results), "utf-8")
    print(report.table(results))
    try:
        plots.draw(results, options.out)
        plots.summary(results, options.out)
    except ImportError:
        print("No pictures: matplotlib is not there (pip install --group bench).")
    for failure in results.failures:
        print(f"{failure.peer} failed at {failure.workload}, {failure.setting}: {failure.what}")
        print(f"    {failure.again}")
    if reason := report.reason_not_to_quote(results):
        print(f"Do not quote these numbers: {reason}.")
    print(f"All of it: {options.out / 'results.md'}")


def _allow_connections() -> None:
    """A thousand sessions in one process take more files than are usual."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _herd(scale: str) -> list[dict[str, object]]:
    rows = []
    for contenders in _HERDS[scale]:
        for way in herd.WAYS:
            found = anyio.run(herd.on_embedded, way, contenders)
            traffic = found.traffic
            rows.append(
                {
                    "way": way,
                    "contenders": contenders,
                    "events": traffic.events,
                    "requests": traffic.requests,
                    "bytes_in": traffic.bytes_in,
                    "bytes_out": traffic.bytes_out,
                }
            )
    return rows


def _show(options: argparse.Namespace) -> None:
    sys.stdout.write(report.markdown(Results.load(options.file)))


def _list(_: argparse.Namespace) -> None:
    print("workloads:")
    for name, workload in WORKLOADS.items():
        print(f"  {name:26} {workload.title}; {', '.join(workload.settings)}")
    print("peers:")
    for name, kind in PEERS.items():
        print(f"  {name:26} {kind.library} on {kind.loop}")
    print("settings:")
    for name, setting in ALL_SETTINGS.items():
        print(f"  {name:26} {setting.title}")


if __name__ == "__main__":
    main()
