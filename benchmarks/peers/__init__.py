"""The peers, a file each; `registry.py` is the list of them.

Nothing is imported here: it would be in the memory of every peer's process.
"""
