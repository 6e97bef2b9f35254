"""The double barrier.

double_barrier    the public recipe, and what being inside is
membership        entering and leaving: one znode, and a look at the others
ready             the znode that decides for all
"""
