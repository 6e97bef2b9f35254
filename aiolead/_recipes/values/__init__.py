"""Shared values: counters, sequences, shared values, configurations; views of single znodes.

counter, sequence, shared_value   the recipes of one znode
config/                           a configuration: several keys, published together
optimistic                        the loop of all updates: read, change, write conditionally
codec                             values as bytes
znode_views                       `client.observe_data` and `client.observe_children`
"""
