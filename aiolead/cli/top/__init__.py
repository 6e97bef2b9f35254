"""`aiolead top`: a live view of who leads what."""

from .command import top

__all__ = ["top"]
