"""What brings which bugs out: see `Mutant.aim`; and which tests are enough to see the rest."""

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

SWALLOWS = ("request-swallowed", "create-swallowed", "delete-swallowed", "list-swallowed")
"""A request is not answered, and nothing behind it but pings is."""

DELETIONS = ("znode-deleted", "line-deleted")
"""An operator deletes znodes under their owners."""

ENDS = ("session-ended", *SILENCE)
"""The session ends, or may."""

GONE_TOGETHER = Aim(
    (("isolated", "server-killed", "server-frozen"), ("link-half-open", "link-silent-up")),
    least=1.3,
    groups=1,
    spread=0.06,
    target="holder",
    tick=0.5,
    grace_period=0.0,
)
"""A holder and its server are gone at once: what the server had heard of it reaches nobody."""

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

LATE_THEN_GONE = Aim(
    (("slow-replies",), ("link-half-open", "link-silent-up")),
    least=1.2,
    spread=0.4,
    groups=1,
    target="holder",
    tick=0.125,
    grace_period=0.0,
)
"""Answers come late to a holder, and then none at all."""

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

ASYNCIO = ("-m", "not real", "-k", "asyncio and not uvloop and not standalone and not ensemble")
"""Of the tests that run on every event loop and against every server: on one each."""

RARE = ("tests/recipes/test_rare_moments.py",)
"""One scene for each of the rules that others hide most of the time."""

LINKS = ("tests/client/test_client_virtual.py",)
"""Servers that hang up, and links that are slow, with everything counted."""

READ_ONLY = ("tests/unit/session/test_session_read_only.py",)
"""The simulation's servers have no read-only mode."""
