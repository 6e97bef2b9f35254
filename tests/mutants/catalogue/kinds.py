"""Which kinds of faults bring which bugs out: see `Mutant.kinds`."""

from __future__ import annotations

CUTS = ("isolated", "deaf", "mute", "halves", "all-apart")
"""A server goes on serving, and its peers do not hear of it."""

STANDSTILLS = (*CUTS, "server-frozen")
"""... or finds, when it goes on, what was committed meanwhile."""

LOST_CREATES = ("create-answer-lost", "create-request-lost", "link-cut-down")
"""A create that may have been applied."""

LOST_LINKS = (
    "link-reset",
    "link-fin",
    "link-cut-up",
    "link-cut-down",
    "link-refused",
    "server-killed",
)
"""Reconnecting within the session."""

SILENCE = ("link-silent-up", "link-silent-down", "link-stalled", "link-half-open")
"""Connections over which nothing comes any more."""

DELETIONS = ("znode-deleted", "line-deleted")
"""An operator deletes znodes under their owners."""

ENDS = ("session-ended", *SILENCE)
"""The session ends, or may."""
