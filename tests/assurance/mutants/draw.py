"""Mutants at random places, and how many the tests kill: `python -m tests.assurance.mutants.draw`.

Mutmut and Cosmic Ray were tried. Neither drops statements or awaits, which is where this suite was
found to be weak; mutmut also leaves out every decorated function, properties above all.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from .catalogue import MUTANTS
from .catch import OVERDUE, Hunt, run_tests
from .edit import span_of, spliced
from .operators import WEIGHTS, mutations
from .plant import PACKAGE, ROOT

CORE = {"_session": 26, "_recipes": 51, "_client": 18, "_wire": 5}
"""The packages that the default draw is from, and their shares in percent."""

TESTS = {
    "_wire": ("tests/wire", "tests/session", "tests/client"),
    "_session": ("tests/session", "tests/client", "tests/recipes"),
    "_client": ("tests/client", "tests/testing/test_guests.py", "tests/recipes"),
    "_recipes": ("tests/recipes", "tests/client"),
    "blocking": ("tests/blocking",),
    "adapters": ("tests/adapters",),
    "cli": ("tests/cli",),
    "testing": ("tests/testing", "tests/assurance/conformance", "tests/assurance/simulation"),
}
"""The tests of a package, the related ones first."""

OTHER_TESTS = ("tests/root", "tests/parsing", "tests/client", "tests/recipes")
NOT_REAL = ("-m", "not real")  # real servers take most of the time

EQUIVALENT = Path(__file__).with_name("equivalent.txt")
"""Mutants that were read and change nothing that counts: an id, then the reason."""


@dataclass(frozen=True, slots=True)
class Site:
    """One mutant. Its id is the same as long as its function and the code in it are."""

    id: str
    file: str
    line: int
    operator: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.id} {self.file}:{self.line} {self.what}"


def sites(file: str) -> Iterator[Site]:
    """Every mutant of a file."""
    text = (ROOT / PACKAGE / file).read_text("utf-8")
    seen: Counter[str] = Counter()
    for found in mutations(ast.parse(text)):
        old = " ".join(ast.unparse(each) for each in found.nodes)
        key = f"{found.qualname}|{found.operator}|{old}"
        seen[key] += 1
        span = span_of(text, found.nodes[0], found.nodes[-1], is_statement=found.is_statement)
        name = blake2b(f"{key}|{seen[key]}".encode(), digest_size=4).hexdigest()
        what = f"{found.qualname}, {found.operator}: {old} -> {found.new}"
        what = re.sub(r"\s+", " ", what)[:200]
        new = spliced(text, span, found.new)
        yield Site(name, file, found.nodes[0].lineno, found.operator, what, new)


def drawn(found: Sequence[Site], count: int, seed: int) -> list[Site]:
    """Some of the mutants: of each operator as many as its weight says, on the average."""
    numbers = Counter(site.operator for site in found)

    def key(site: Site) -> float:
        digest = blake2b(f"{seed}|{site.id}".encode(), digest_size=8).digest()
        uniform = (int.from_bytes(digest, "big") + 1) / 2**64
        return float(uniform ** (numbers[site.operator] / WEIGHTS[site.operator]))

    return sorted(found, key=key, reverse=True)[:count]


def draw(options: argparse.Namespace) -> list[Site]:
    """The mutants that the options ask for."""
    paths = sorted((ROOT / PACKAGE).rglob("*.py"))
    files = [path.relative_to(ROOT / PACKAGE).as_posix() for path in paths]
    if options.changed:
        lines = changed_lines(options.changed)
        found = [each for file in files if file in lines for each in sites(file)]
        return drawn([x for x in found if x.line in lines[x.file]], options.count, options.seed)
    if options.whole:
        return drawn([x for file in files for x in sites(file)], options.count, options.seed)
    result: list[Site] = []
    for package, share in CORE.items():
        found = [x for file in files if file.startswith(f"{package}/") for x in sites(file)]
        result += drawn(found, round(options.count * share / 100), options.seed)
    return result


def changed_lines(base: str) -> dict[str, set[int]]:
    """The lines of the package's files that differ from a branch or a commit."""
    command = ["git", "diff", "-U0", "--no-prefix", f"{base}...", "--", PACKAGE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines: dict[str, set[int]] = {}
    file = ""
    for line in done.stdout.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix(f"+++ {PACKAGE}/")
        elif match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, size = int(match[1]), int(match[2] or 1)
            lines.setdefault(file, set()).update(range(first, first + size))
    return lines


# --- running -----------------------------------------------------------------------------------


def related(file: str) -> list[list[str]]:
    """The tests to run for a file, run by run.

    The first run has the closest ones, which mostly decide: the files and folders that are named
    after the module, and the tests that see its planted bugs.
    """
    package, _, rest = file.partition("/")
    folders = [each for each in TESTS.get(package, OTHER_TESTS) if (ROOT / each).exists()]
    module = file.removesuffix(".py").replace("/", ".")
    closest: dict[str, None] = {}
    for name in reversed(Path(rest).with_suffix("").parts):
        for folder in folders:
            for pattern in (name, f"test_{name}*.py"):
                found = sorted((ROOT / folder).rglob(pattern))
                closest |= {path.relative_to(ROOT).as_posix(): None for path in found}
    for mutant in MUTANTS:
        if any(change.module == module for change in mutant.changes):
            closest |= {test: None for test in mutant.tests if test.startswith(tuple(folders))}
    return [run for run in (list(closest), *([folder] for folder in folders)) if run]


def kill(site: Site, seconds: float) -> Hunt:
    """Run the related tests up to the first that fails only with the mutant."""
    spent = 0.0
    for tests in related(site.file):
        found = run_tests({site.file: site.text}, [*tests, *NOT_REAL], seconds=seconds)
        spent += found.seconds
        if found.caught:
            name = found.caught[0]
            again = name.startswith("tests/") and run_tests({}, [name], seconds=seconds).caught
            is_unsure = again or name == OVERDUE
            return replace(found, caught=("unsure",) if is_unsure else (name,), seconds=spent)
    return Hunt((), 0, spent)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.assurance.mutants.draw", description=__doc__
    )
    parser.add_argument("--count", type=int, default=80, help="how many mutants at most")
    parser.add_argument("--seed", type=int, default=3, help="which draw")
    parser.add_argument("--whole", action="store_true", help="from the whole package")
    parser.add_argument("--changed", metavar="BASE", help="from lines that differ from a branch")
    parser.add_argument("--only", nargs="*", metavar="ID", help="only these of the draw")
    parser.add_argument("--list", action="store_true", help="list the mutants, and run none")
    parser.add_argument(
        "--minutes",
        type=float,
        default=8.0,
        help="how long at most, for each of a mutant's folders of tests",
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--least", type=float, default=0.0, help="the least kill rate in percent")
    parser.add_argument("--report", type=Path, help="a file for the report, as it grows")
    options = parser.parse_args()
    found = [x for x in draw(options) if not options.only or x.id in options.only]
    if options.list:
        for site in found:
            say(str(site))
        return 0
    hunts = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for site, hunt in pool.map(lambda x: (x, kill(x, 60 * options.minutes)), found):
            hunts.append((site, hunt))
            by = f"seen: {hunt.caught[0]}" if hunt.caught else "SURVIVES"
            say(f"{site}\n    {by} ({hunt.seconds:.0f} s)")
            if options.report is not None:
                options.report.write_text(summary(hunts)[0], "utf-8")
    text, rate = summary(hunts)
    say(text)
    return int(rate < options.least)


def summary(hunts: Sequence[tuple[Site, Hunt]]) -> tuple[str, float]:
    """The kill rate and the survivors."""
    known = dict(line.split(maxsplit=1) for line in EQUIVALENT.read_text("utf-8").splitlines())
    counted = [(site, hunt) for site, hunt in hunts if hunt.caught != ("unsure",)]
    survivors = [site for site, hunt in counted if not hunt.caught]
    equal = [site for site in survivors if site.id in known]
    killed, real = len(counted) - len(survivors), len(counted) - len(equal)
    rate = 100 * killed / real if real else 100.0
    by = Counter(site.operator for site, _ in counted)
    dead = Counter(site.operator for site, hunt in counted if hunt.caught)
    lines = [
        f"# {len(counted)} random mutants: {killed} killed, {len(survivors)} survive",
        "",
        f"{len(equal)} survivors are known to be equivalent. Kill rate without them: {rate:.0f} %.",
        f"{len(hunts) - len(counted)} not counted: slow, or their test fails without them.",
        "",
        "By operator: " + ", ".join(f"{name} {dead[name]}/{by[name]}" for name in sorted(by)),
        "",
        *(f"* `{site}`" for site in survivors if site not in equal),
        *(f"* equivalent, {known[site.id]}: `{site}`" for site in equal),
    ]
    return "\n".join(lines) + "\n", rate


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
