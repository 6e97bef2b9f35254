"""Items, keys and versions of recipes without contenders, as tables for `top` and the dashboard.

Pure. Texts are shortened and escaped. Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from .._util.token_bucket import Write
from ..model import Stat
from ..types import ConfigVersion, DeadLetter
from . import render
from .contender_queue import created_below
from .recipe_layouts import OtherRecipe, RecipeItem
from .scene import Scene
from .scene_text import name_of, use_as_text
from .scene_values import OwnerConnection

MOST_ROWS = 200
MOST_KEYS = 20
"""How many changed keys of a version are named."""
LONGEST_TEXT = 200
"""In characters."""
NO_LETTERS: Mapping[str, DeadLetter] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Age:
    """How long ago something was."""

    since: float


@dataclass(frozen=True, slots=True)
class Moment:
    at: float


@dataclass(frozen=True, slots=True)
class Level:
    """A level as of a time, which rises by `speed` in a second up to `most`."""

    level: float
    at: float
    speed: float
    most: int


Cell = str | Age | Moment | Level


@dataclass(frozen=True, slots=True)
class RecipeTable:
    """A table with a row for each thing, by its unique key; `more` things have none.

    `oldest` is when the oldest of them came; None if that does not matter.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[object, Sequence[Cell]]]
    more: int = 0
    oldest: float | None = None


def table_of(
    scene: Scene,
    recipe: OtherRecipe,
    now: float,
    history: Sequence[ConfigVersion] = (),
    letters: Mapping[str, DeadLetter] = NO_LETTERS,
) -> RecipeTable | None:
    """The table of a recipe; None if it has only members.

    `history` is that of a configuration, `letters` the dead letters among the items of a queue.
    """
    if recipe.kind == "configuration":
        return _versions(history)
    if recipe.kind == "once":
        return _keys(scene, recipe)
    if limit := scene.limit_of(recipe):
        return _limit(*limit, now)
    is_queue = recipe.kind.endswith("queue") or recipe.kind == "task board"
    return _items(scene, recipe, letters) if is_queue else None


def _items(scene: Scene, recipe: OtherRecipe, letters: Mapping[str, DeadLetter]) -> RecipeTable:
    items = scene.items_of(recipe)
    noun = "open task" if recipe.kind == "task board" else "item"
    of_letter = ["Dead letter of"] if letters else []
    rows: list[tuple[object, Sequence[Cell]]] = []
    for item in items[:MOST_ROWS]:
        attempts, letter = created_below(item.stat), letters.get(item.path)
        said = letter and f"{letter.item}, after {letter.attempts} attempts: {letter.reason}"
        cells: list[Cell] = [_text(item.name), Age(item.stat.ctime / 1000)]
        cells += [str(item.stat.data_length), str(attempts or "")]
        cells += [*(_text(said or "") for _ in of_letter), *_claim(scene, item)]
        rows.append(((item.path, item.stat.czxid), cells))
    oldest = min((item.stat.ctime for item in items), default=None)
    return RecipeTable(
        render.plural(len(items), noun) if items else f"No {noun}: nothing is waiting to be done",
        [noun.capitalize(), "Age", "Bytes", "Attempts", *of_letter, *_OF_CLAIM],
        rows,
        max(0, len(items) - MOST_ROWS),
        None if oldest is None else oldest / 1000,
    )


_OF_CLAIM = ("Claimed by", "For", "Session", "Address")
_TROUBLE = {
    OwnerConnection.SILENT: ", has no connection",
    OwnerConnection.PAUSED: ", is silent (stopped?)",
}


def _claim(scene: Scene, item: RecipeItem) -> list[Cell]:
    """The claimant of an item, for how long it has it, its session and address."""
    if item.claim is None:
        return [""] * len(_OF_CLAIM)
    stat = item.claim.stat
    return [
        name_of(item.claim.identity) + _TROUBLE.get(scene.connection_of(item.claim), ""),
        Age(stat.ctime / 1000),
        render.session(stat.ephemeral_owner) or "",
        _text(scene.address_of(stat.ephemeral_owner)),
    ]


def _keys(scene: Scene, recipe: OtherRecipe) -> RecipeTable:
    """The keys of a `Once`, with the process that runs or ran each, and since when."""
    items = scene.items_of(recipe)
    rows: list[tuple[object, Sequence[Cell]]] = []
    for item in items[:MOST_ROWS]:
        at, claim = item.stat.ctime / 1000, _claim(scene, item)
        if item.claim is None:
            claim = [name_of(item.done_by), Age(at), "", ""]
        state = "done" if item.claim is None else "running"
        rows.append(((item.path, item.stat.czxid), [_text(item.name), Moment(at), state, *claim]))
    return RecipeTable(
        use_as_text(replace(recipe, members=())) + ", the newest first",
        ["Key", "Began or done (UTC)", "State", "By", "Age", "Session", "Address"],
        rows,
        max(0, len(items) - MOST_ROWS),
    )


def _limit(write: Write, stat: Stat, now: float) -> RecipeTable:
    """The numbers of a rate limit, and how many calls are allowed now, by the servers' clock."""
    numbers, (_, took), at = write.numbers, write.applied(stat), stat.mtime / 1000
    now = max(now, at)
    cells: list[Cell] = [
        f"{numbers.rate:g} in {numbers.per:g} s",
        str(numbers.burst),
        Level(write.level(stat, now), now, numbers.speed, numbers.burst),
        str(took),
        Moment(at),
    ]
    columns = ["Calls", "At most at once", "Free now, about", "Last share", "Taken (UTC)"]
    return RecipeTable("Calls that all processes may make together", columns, [("limit", cells)])


def _versions(history: Sequence[ConfigVersion]) -> RecipeTable:
    """The versions of a configuration, newest first, with the keys that each has changed.

    Values are left out: a configuration may have secrets, and the dashboard is for everybody.
    """
    rows: list[tuple[object, Sequence[Cell]]] = []
    history = sorted(history, key=lambda one: one.version)
    for before, one in zip([None, *history], history, strict=False):
        old = {} if before is None else before.keys
        changes = {
            "added": [key for key in one.keys if key not in old],
            "changed": [key for key in one.keys if key in old and old[key] != one.keys[key]],
            "removed": [key for key in old if key not in one.keys],
        }
        # The changes of the oldest version that is kept are unknown, unless it is the first.
        if before is None and one.version > 1:
            changes = {}
        said = [
            f"{what}: {', '.join(_text(key) for key in sorted(keys)[:MOST_KEYS])}"
            for what, keys in changes.items()
            if keys
        ]
        cells: list[Cell] = [str(one.version), Moment(one.time / 1000)]
        cells += [name_of(one.identity), str(len(one.keys)), "; ".join(said) or "none known"]
        rows.append((one.version, cells))
    title = "The versions cannot be read"
    if rows:
        title = f"{render.plural(len(rows), 'version')}, newest first (values are not shown)"
    return RecipeTable(title, ["Version", "Published (UTC)", "By", "Keys", "Changes"], rows[::-1])


def _text(text: str) -> str:
    return render.shortened(text, LONGEST_TEXT)
