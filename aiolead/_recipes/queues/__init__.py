"""Queues: persistent items, handed out under claims.

queue             the public recipes
work_queue        what queues and the task board share: adding items, consuming them
claim             acquiring a claim: the ephemeral znode that marks an item as taken
claimed           an item held under a claim, until it is released or finished
available_items   what one queue object knows of the items and claims on its path
item_format       the names of items, their order and due times; their data, in Curator's format
"""
