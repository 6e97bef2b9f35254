"""Barriers.

barrier             the barrier that is set and removed
double_barrier      the public recipe: in together, out together
barrier_membership  one member, from entering to leaving
ready               the znode that exists for as long as a round lasts
"""
