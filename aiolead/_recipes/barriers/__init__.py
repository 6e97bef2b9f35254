"""Barriers.

barrier             the recipes: a barrier that is set and removed; in together, out together
barrier_membership  one member of a double barrier; the znode that exists while a round lasts
"""
