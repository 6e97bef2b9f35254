"""Persistent nodes, groups, and work that the members of a group share.

persistent_node     the recipe: a znode that exists for the duration of a block
znode_keeper        the job that creates, restores and deletes it
kept_znode          the naming of its znode, with the rules of its three modes
group               members, and the view of them
partitioner         which member gets which item, and the work on them
"""
