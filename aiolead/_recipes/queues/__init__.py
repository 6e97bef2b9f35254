"""Queues: items that persist, handed out under claims.

queue             the public recipes
work_queue        what all recipes have that hand out things under claims, also `_recipes.tasks`
claim             the acquisition of a claim: the ephemeral znode that says who works on an item
claimed           what is held: an item under a claim, released or done
consumption       one item after the other, as an async iterator
available_items   what one queue object knows of the items and claims on its path
producer          adding items, up to a limit
item_names        the names of items, their order, and when they are due
item_codec        the data of an item, in Curator's format
"""
