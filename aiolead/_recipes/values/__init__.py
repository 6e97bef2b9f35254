"""Shared values: counters, sequences, shared values, configurations; views of single znodes.

counter, shared_value    the recipes of one znode: counters, unique numbers, values
config, config_snapshot  a configuration: several keys, published together; its snapshots, view
optimistic               the loop of all updates: read, change, write conditionally
codec                    values as bytes
valid_observation        what the views publish where data may be invalid
znode_views              `client.observe_data` and `client.observe_children`
"""
