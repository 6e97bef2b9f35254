"""Groups of faults that bring bugs out: see `Mutant.aim`."""

from __future__ import annotations

from ..model import Aim

CUTS = ("isolated", "deaf", "mute", "halves", "all-apart")
"""A server goes on serving, and its peers do not hear of it."""

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

SKIPS = ("request-skipped", "create-skipped", "delete-skipped", "renewal-skipped")
"""A request is not answered, and the one behind it is."""

ENDS = ("session-ended", *SILENCE)
"""The session ends, or may."""

LONG_CUT = Aim(
    (("isolated", "deaf", "mute"),),
    least=1.5,
    groups=1,
    target="holder",
    tick=0.25,
    sync_limit=8,
    grace_period=0.0,
)
"""A holder's server is cut off from its peers and serves for twice the session timeout."""

STALE = Aim(
    (("isolated", "deaf", "server-frozen", "lagging"), ("cancelled", "session-ended")),
    least=0.6,
    spread=0.3,
    groups=2,
    tick=0.5,
    sync_limit=8,
    grace_period=0.0,
)
"""Somebody leaves while the server of another one hears nothing of it, or hears it late."""
