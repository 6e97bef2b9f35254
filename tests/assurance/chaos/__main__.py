"""`python -m tests.assurance.chaos`: see the package."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from aiolead.testing import ZooKeeperNotFoundError

# For `support`, which pytest finds by itself.
sys.path.insert(0, str(Path(__file__).parents[2]))

from . import curator, leader_pauses
from .isolated import Trial, isolate_a_holder
from .report import seeds_table, seen_table, trials_table
from .role import RECIPES
from .run import Outcome, play
from .schedule import Schedule
from .settings import Settings

_SERVERS = 3
_CONTENDERS = 4


def main() -> int:
    options = _options()
    # As after Ctrl-C: all processes end, all files go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    settings = Settings(
        tick_time=options.tick_time,
        sync_limit=options.sync_limit,
        session_timeout=options.session_timeout,
    )
    recipes = options.recipes.split(",")
    if unknown := set(recipes) - set(RECIPES):
        say(f"unknown recipes: {', '.join(sorted(unknown))}; there are {', '.join(RECIPES)}")
        return 2
    try:
        if any(recipe in curator.RECIPES for recipe in recipes):
            curator.command()
        if options.isolated_follower:
            return isolated_follower(settings, recipes, options.trials)
        if options.leader_pauses:
            return pauses_of_the_leader(settings, options.seconds, options.first, options.loop)
        seeds = range(options.first, options.first + options.seeds)
        return chaos(settings, recipes, seeds, options.seconds)
    except (ZooKeeperNotFoundError, curator.CuratorNotFoundError) as missing:
        say(str(missing))
        return 2


def chaos(settings: Settings, recipes: list[str], seeds: range, seconds: float) -> int:
    """Runs each seed with each recipe; 1 if aiolead did what it must not."""
    outcomes: list[Outcome] = []
    say(str(settings))
    with ExitStack() as stack:
        ensemble = stack.enter_context(settings.ensemble())
        for seed in seeds:
            schedule = Schedule.of(
                seed,
                servers=_SERVERS,
                contenders=_CONTENDERS,
                seconds=seconds,
                session_timeout=settings.session_timeout,
            )
            say(f"seed {seed}: {len(schedule.faults)} faults within {seconds:g} s")
            for recipe in recipes:
                outcome = play(ensemble, settings, schedule, recipe, seats=_CONTENDERS)
                outcomes.append(outcome)
                say(f"  {outcome}")
                if outcome.wrong:
                    say(f"{schedule}\n" + "\n".join(outcome.wrong))
                    say(f"the history is in {_keep(outcome)}")
                if outcome.is_void:
                    stack.close()
                    ensemble = stack.enter_context(settings.ensemble())
    say("")
    say(seeds_table(outcomes))
    say("")
    say(seen_table(outcomes))
    return int(any(outcome.wrong for outcome in outcomes if not outcome.is_void))


def isolated_follower(settings: Settings, recipes: list[str], count: int) -> int:
    """Repeats the trial with each recipe in turn; 1 if two held with aiolead."""
    trials: list[Trial] = []
    with settings.ensemble() as ensemble:
        version = ensemble.servers[0].four_letter("srvr").partition("-")[0]
        say(f"{version}; {settings}")
        for number in range(count):
            for recipe in recipes:
                trial = isolate_a_holder(ensemble, settings, recipe, random.Random(number))
                trials.append(trial)
                say(f"{number + 1:3} of {count}  {trial}")
                for text in trial.wrong:
                    say(text)
    say("")
    say(trials_table(trials))
    return int(any(trial.wrong for trial in trials))


def pauses_of_the_leader(settings: Settings, seconds: float, seed: int, backend: str) -> int:
    """Has every recipe used while the leader is stopped and continued; 1 if anything is wrong."""
    with settings.ensemble() as ensemble:
        say(ensemble.servers[0].four_letter("srvr").partition("-")[0])
        report = leader_pauses.play(ensemble, seconds=seconds, seed=seed, backend=backend)
    say(str(report))
    return int(bool(report.wrong))


def _keep(outcome: Outcome) -> Path:
    directory = Path(tempfile.mkdtemp(prefix="chaos-history-"))
    file = directory / f"{outcome.recipe}-{outcome.schedule.seed}.txt"
    file.write_text("\n".join(map(str, outcome.events)), "utf-8")
    return file


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.assurance.chaos", description=__doc__)
    parser.add_argument("--recipes", "--recipe", default="aiolead,aiolead-lock")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seconds", type=float, default=12.0, help="of faults, for each seed")
    parser.add_argument("--isolated-follower", action="store_true")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--leader-pauses", action="store_true", help="every recipe, one seed")
    parser.add_argument("--loop", choices=("asyncio", "trio"), default="asyncio", help="of those")
    defaults = Settings()
    parser.add_argument("--tick-time", type=float, default=defaults.tick_time)
    parser.add_argument("--sync-limit", type=int, default=defaults.sync_limit)
    parser.add_argument("--session-timeout", type=float, default=defaults.session_timeout)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
