"""The kinds of faults, and how each is done and undone.

    model       what a fault is
    links       between clients and servers
    servers     servers, and the links among them
    requests    single requests and answers that are lost, with their connection
    omissions   single requests that are not answered, while the connection stays
    clients     processes and clients, and an operator's orders
    composite   several that belong together

An act does its fault at one instant, synchronously, and gives back what undoes it. It uses
`Levers` alone, which keep account: what two faults hold down is well again when both are over.
"""

from . import clients, links, omissions, requests, servers
from .composite import COMPOSITES as COMPOSITES
from .composite import HANDS_CHANGE
from .model import Composite as Composite
from .model import Fault as Fault
from .model import Kind as Kind
from .model import Target as Target
from .model import Undo as Undo

_FIRST = (*links.KINDS, *servers.KINDS, *requests.KINDS, *clients.KINDS)
_LATER = (*omissions.KINDS, *servers.LATER)

KINDS: dict[str, Kind] = {kind.name: kind for kind in (*_FIRST, *_LATER)}
"""Every kind of fault, by its name."""

STREAMS: dict[str, tuple[Kind | Composite, ...]] = {
    "swarm": (*_FIRST, *COMPOSITES.values()),
    "omissions": (*_LATER, HANDS_CHANGE),
}
"""The streams that a schedule draws its faults from: each by its own generator.

An addition to a stream changes the meaning of all seeds. So what comes later gets a stream of its
own: a seed then means what it did, and maybe more.
"""
