"""Barriers.

barrier             a barrier that is set and removed
double_barrier      the public recipe: in together, out together
barrier_membership  one member, from entering to leaving
ready               the znode that exists while a round lasts
"""
