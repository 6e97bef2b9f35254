"""Shared values: counters, sequences, shared values, configurations; views of single znodes.

optimistic    the loop of all updates: read, change, write if nobody else was quicker
codec         values as bytes
znode_views   `client.observe_data` and `client.observe_children`

The other modules are the recipes.
"""
