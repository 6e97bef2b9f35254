"""Runs one target, or each in turn, under a coverage-guided fuzzer.

    python -m tests.assurance.fuzz [--target machine] [--seconds 60]

The fuzzer is atheris (libFuzzer), which instruments the library as it is imported. An input that
breaks a target is left as a file in the folder `--findings`, and makes the exit code 1. Inputs that
reach new code are kept in `--corpus`, so that the next run begins where this one ended.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `kit`, as the tests have it

NAMES = ("frames", "record", "version", "quota", "config", "login", "machine", "server")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.assurance.fuzz", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--target", choices=NAMES, action="append", help="all by default")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--corpus", type=Path, default=Path("fuzz-corpus"))
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    targets = options.target or list(NAMES)
    if options.here:
        fuzz(targets[0], options.seconds, options.corpus, options.findings)
    # libFuzzer ends its process when it is done, so that each target has one of its own.
    results = [
        subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.assurance.fuzz",
                "--here",
                *("--target", target),
                *("--seconds", str(options.seconds)),
                *("--corpus", str(options.corpus)),
                *("--findings", str(options.findings)),
            ],
            check=False,
        ).returncode
        for target in targets
    ]
    return int(any(results))


def fuzz(target: str, seconds: int, corpus: Path, findings: Path) -> None:
    """Does not return."""
    import atheris

    with atheris.instrument_imports(include=["aiolead"]):
        from assurance.fuzz import targets

    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(targets.seeds(target)):
        (folder / f"seed-{number}").write_bytes(seed)
    arguments = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        "-timeout=10",  # seconds for one input: a hang
        "-rss_limit_mb=1024",
        "-max_len=8192",
        "-print_final_stats=1",
        f"-artifact_prefix={findings}/{target}-",
        str(folder),
    ]
    atheris.Setup(arguments, targets.TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    raise SystemExit(main())
