"""A local copy of a tree.

tree_cache    the recipe: watching the tree, and the life of the copy
tree_reader   decides what has to be read, and applies what was read
tree_copy     the known znodes, and the events for each reader
"""
