"""What is going on under some paths: who leads what, who waits, what happens.

`Scene` is the state, `Feed` keeps it up to date from the servers, `said` puts it into words and
into JSON. Whatever shows it live (`aiolead top`, say) waits for `Feed.changed` and shows the scene.
"""

from .feed import Feed, steady_clock
from .scene import Scene
from .values import Happening, Line, Link, Term, What

__all__ = ["Feed", "Happening", "Line", "Link", "Scene", "Term", "What", "steady_clock"]
