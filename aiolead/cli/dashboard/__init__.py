"""`aiolead dashboard`: who leads and who waits, as a page that keeps itself up to date.

`command` is the command; `state` puts a scene into JSON, `live` has the newest one for all who
listen, `web` speaks HTTP, `doors` decides whom to answer, `site` what; the page itself is in
`pages`. Nothing here writes anything to the servers.
"""

from .command import dashboard

__all__ = ["dashboard"]
