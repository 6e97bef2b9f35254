"""What is raised for an attribute that other libraries have, and that is no attribute here."""

from __future__ import annotations

from .errors import UsageError

__all__ = ["MissingAttribute"]


class MissingAttribute(UsageError, AttributeError):
    """An object has no such attribute. The message shows the line that does what was meant.

    Caught as `UsageError`. An `AttributeError` as well, which is what `hasattr` asks for.
    """
