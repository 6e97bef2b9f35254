"""The costs of the calls in `kit.every_recipe`, and of holds that have no table of their own.

The calls of a recipe are made one after the other; each is measured in its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from kit.every_recipe import RECIPES, Held, Recipe

from costs import conditions, election, lock, membership, queues, read_write, semaphores, values
from costs._acts import enter, leave
from costs._counting import PATH, Act, Bench, Operation, rows

TABLES = (conditions, election, lock, membership, queues, read_write, semaphores, values)
MEASURED = {row.recipe for table in TABLES for row in table.ROWS}
"""The recipes with rows that say what is special about them."""


def call(recipe: Recipe, number: int) -> Act:
    """The call of a number, after those before it."""

    async def act(bench: Bench) -> None:
        thing = recipe(await bench.client(), PATH)
        *before, last = list(recipe.calls.values())[: number + 1]
        for each in before:
            await each(thing)
        async with bench.measured():
            await last(thing)

    return act


def prepared(scene: Held) -> Any:
    """A block to hold it, with a client of its own."""

    async def setup(bench: Bench) -> Any:
        client = await bench.client()
        if scene.prepare is not None:
            await scene.prepare(client, PATH)
        return partial(scene.enter, client, PATH)

    return setup


def operations(recipe: Recipe, *, is_measured: bool) -> Iterator[tuple[str, Act]]:
    """The operations of a recipe, by their names."""
    for number, name in enumerate(recipe.calls):
        yield name, call(recipe, number)
    if recipe.held is not None and not is_measured:
        yield "acquire", enter(prepared(recipe.held), lambda block: block())
        yield "release", leave(prepared(recipe.held), lambda block: block())


ROWS: list[Operation] = [
    row
    for name, recipe in RECIPES.items()
    for row in rows(name, dict(operations(recipe, is_measured=name in MEASURED)))
]
