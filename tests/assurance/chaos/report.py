"""Results as tables, in Markdown: what is measured goes into the documentation as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from statistics import median
from typing import TypeVar

from . import curator
from .isolated import Trial
from .run import Outcome

R = TypeVar("R", Trial, Outcome)

_WHAT = {
    "aiolead": "`Election.leadership`",
    "aiolead-lock": "`Lock`",
    "kazoo": "`Election`, until its listener receives SUSPENDED",
    "kazoo-lock": "`Lock`, until its listener receives SUSPENDED",
    "aiozk": "`Lock`, until the session is SUSPENDED",
    "aiozk-election": "`LeaderElection`, until the session is SUSPENDED",
    "curator": "`LeaderLatch`, while `hasLeadership()`",
    "curator-lock": "`InterProcessMutex`, until its listener receives SUSPENDED",
}


def name_of(recipe: str) -> str:
    """A recipe with the version of its library, and until when its user believes that it holds."""
    library = recipe.partition("-")[0]
    if library == "aiolead":
        return f"{library} {_WHAT[recipe]}"
    if library == "curator":
        return f"Curator {curator.version()} {_WHAT[recipe]}"
    return f"{library} {version(library)} {_WHAT[recipe]}"


def trials_table(trials: Sequence[Trial]) -> str:
    """All trials of a kind side by side, by recipe."""
    head = (
        "recipe",
        "trials",
        "two holders for, s: min / median / max",
        "the first one stops, s after the cut",
        "the second one enters, s after the cut",
        "stops before the servers delete its znode by, s",
    )
    rows = [
        (
            name_of(recipe),
            str(len(own)),
            spread(trial.overlap for trial in own),
            spread(trial.learned for trial in own),
            spread(trial.taken_over for trial in own),
            spread((trial.margin for trial in own), signed=True),
        )
        for recipe, own in by_recipe(trials)
    ]
    return table(head, rows)


def seeds_table(outcomes: Sequence[Outcome]) -> str:
    """The results of the seeds, by recipe."""
    rows = []
    for recipe, every in by_recipe(outcomes):
        own = [outcome for outcome in every if not outcome.is_void]
        doubled = [outcome.overlap for outcome in own if outcome.overlap > 0]
        margins = [margin.seconds for outcome in own for margin in outcome.margins]
        lost = Counter[str]()
        for outcome in own:
            lost.update({store: len(elements) for store, elements in outcome.lost.items()})
        cells = {
            "seeds": len(own),
            "void: the servers lost something": len(every) - len(own),
            "holds": sum(outcome.holds for outcome in own),
            "seeds with two holders at once": f"{len(doubled)} ({sum(doubled):.3f} s)",
            "seeds in which a contender was stuck": sum(bool(outcome.stuck) for outcome in own),
            "updates lost": ", ".join(f"{store} {count}" for store, count in lost.items()),
            "least margin, s": f"{min(margins):+.3f} (of {len(margins)})" if margins else "-",
            "violations": sum(len(o.wrong) for o in own) if every[0].is_ours else "not checked",
        }
        rows.append({"recipe": name_of(recipe), **cells})
    return table(tuple(rows[0]), [tuple(map(str, row.values())) for row in rows]) if rows else ""


def by_recipe(results: Sequence[R]) -> list[tuple[str, list[R]]]:
    """Trials or outcomes, grouped by their recipe."""
    names = dict.fromkeys(each.recipe for each in results)
    return [(name, [each for each in results if each.recipe == name]) for name in names]


def seen_table(outcomes: Iterable[Outcome]) -> str:
    """How often rare situations were reached, with all recipes that report enough."""
    seen = Counter[str]()
    for outcome in outcomes:
        if outcome.is_ours:
            seen.update(outcome.seen)
    return table(("situation", "times"), [(what, str(n)) for what, n in seen.most_common()])


def spread(values: Iterable[float], *, signed: bool = False) -> str:
    """The least, the median and the greatest of some values."""
    found = list(values)
    if not found:
        return "-"
    sign = "+" if signed else ""
    return " / ".join(f"{each(found):{sign}.3f}" for each in (min, median, max))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
