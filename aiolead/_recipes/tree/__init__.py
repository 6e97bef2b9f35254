"""A local copy of a tree.

copy      what is known: the znodes, and what has happened to them since somebody was told
reading   what has to be read, and what follows from what was read
cache     the recipe: what tells that something has changed, and the life of the copy
"""
