"""Queues: items that persist, handed out under claims.

    formats     the bytes of an item, as Curator writes them
    naming      how items are named, in which order they come, and when they are due
    backlog     what one queue object knows of the items and claims on its path
    claim       the life of one claim: the znode that says who works on an item
    claimed     what is held: an item under a claim, given back or done with
    consuming   one item after the other, as an async iterator
    claiming    what every recipe has that hands out things under claims

    putting     adding items, up to a limit
    common      what the queues have in common
    queue       the public recipes

The task board of `_recipes.tasks` is built on the same claims.
"""
