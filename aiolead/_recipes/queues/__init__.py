"""Queues: persistent items, handed out under claims.

queue             the public recipes
work_queue        what queues and the task board share
claim             acquiring a claim: the ephemeral znode that marks an item as taken
claimed           an item held under a claim, until it is released or finished
consumption       the async iterator that `consume` returns
available_items   what one queue object knows of the items and claims on its path
producer          adding items, up to a limit
item_names        the names of items, their order, and when they are due
item_codec        the data of an item, in Curator's format
"""
