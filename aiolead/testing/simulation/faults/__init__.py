"""The kinds of faults, and how each is done and undone.

    model       what a fault is
    links       between clients and servers
    servers     servers, and the links among them
    requests    single requests and answers that are lost
    clients     processes and clients, and an operator's orders
    composite   several that belong together

An act does its fault at one instant, synchronously, and gives back what undoes it. It uses
`Levers` alone, which keep account: what two faults hold down is well again when both are over.
"""

from . import clients, links, requests, servers
from .composite import COMPOSITES as COMPOSITES
from .model import Composite as Composite
from .model import Fault as Fault
from .model import Kind as Kind
from .model import Target as Target
from .model import Undo as Undo

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (*links.KINDS, *servers.KINDS, *requests.KINDS, *clients.KINDS)
}
"""Every kind of fault, by its name."""
