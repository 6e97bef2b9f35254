"""The error for attributes that objects of other libraries have, and ours do not."""

from __future__ import annotations

from .errors import UsageError


class MissingAttribute(UsageError, AttributeError):
    """An `AttributeError`, as `hasattr` expects, whose message shows what to write instead."""
