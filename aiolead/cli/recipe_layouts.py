"""Which recipe uses a path, by the znodes at and below it. Pure.

A recipe is recognised by its layout: by the names of its znodes, by who owns them, and by what is
beside and above them. A path without a recipe's layout is not a recipe.

| kind | layout |
|---|---|
| semaphore | `leases` and `locks` below the path; kazoo's: its queue is beside the path |
| queue, priority queue, delay queue | items by their names; kazoo's `LockingQueue`: in `entries` |
| task board | `tasks`, `claims` and `results`, with `task-` and a number below them |
| configuration | `keys`, and `history` with versions below it |
| partitioner | a group at `party`, and `locks` |
| double barrier | ephemeral children beside `ready`, or with only unique ids as names |
| barrier | a mark in its data, which only aiolead leaves |
| once | keys: a mark in the data of those that are done; those that run are ephemeral |
| rate limit | its data |
| group, service | ephemeral children, and no others; a service's have an instance as data |
| group or once | the same, all with data: members, or keys that run, none of which is done yet |

Elections and locks are `contender_queue`'s. An `ExclusiveLock` is any ephemeral znode, and so looks
like the member of a group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import final
from urllib.parse import unquote

from .._util import parsing
from .._util.contender_names import DONE
from .._util.parsing import MalformedError
from .._util.token_bucket import Write
from ..errors import InvalidDataError
from ..model import Stat
from ..paths import basename, join, parent, sequence_of
from ..types import DeadLetter
from .contender_queue import KAZOO, KAZOOS_QUEUE, MOST_DATA, PERMITS, WAITING, permits_of

CURATOR = "curator"
BARRIER_MARK = b"aiolead barrier"
"""The data that aiolead writes to the znode of a `Barrier`."""
READY = "ready"
LEAST_LIMIT, MOST_SMALL = 80, 400
"""The bytes of a rate limit, and the most that the data of such a key, or of a limit, have."""

Znode = tuple[Stat, bytes | None]
"""A znode's stat and data; None if they are unknown, unreadable, or do not matter."""


@dataclass(frozen=True, slots=True)
class RecipeMember:
    """A process in a group, a service, a double barrier or a partitioner, or that claims an item.

    `identity` is the member's name; for recipes that name their znodes by a unique id, the data.
    """

    path: str
    identity: str
    stat: Stat


@dataclass(frozen=True, slots=True)
class OtherRecipe:
    """A recipe that is no contender queue.

    Attributes:
        kind: one of those in the table above.
        counts: how many of what there are, such as items; in the order in which they are shown.
        members: the processes that are in it, by their names.
        claims: those on items of a queue, or on open tasks of a board, in the order of these.
        note: the numbers of a rate limit, in words.
    """

    path: str
    kind: str
    counts: tuple[tuple[str, int], ...] = ()
    members: tuple[RecipeMember, ...] = ()
    claims: tuple[RecipeMember, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class RecipeItem:
    """An item of a queue, a task of a board, or a key, with the claim on it, if there is one.

    `name` is what it is called; of a done key, `done_by` is who ran it.
    """

    path: str
    name: str
    stat: Stat
    claim: RecipeMember | None = None
    done_by: str | None = None


@final
class ZnodeTree:
    """The znodes of a scene, by their parents."""

    def __init__(self) -> None:
        self._children: dict[str, dict[str, Znode]] = {}

    def put(self, path: str, stat: Stat, data: bytes | None) -> None:
        self._children.setdefault(parent(path), {})[basename(path)] = (stat, data)

    def remove(self, path: str) -> None:
        above = parent(path)
        children = self._children.get(above)
        if children is not None:
            children.pop(basename(path), None)
            if not children:
                del self._children[above]

    def get(self, path: str) -> Znode | None:
        return self.children(parent(path)).get(basename(path))

    def children(self, path: str) -> Mapping[str, Znode]:
        return self._children.get(path, {})


# --- paths that belong together ------------------------------------------------------------------

_PARTS: dict[str, tuple[str, ...]] = {
    "semaphore": (PERMITS, WAITING),
    "task board": ("tasks", "claims", "results"),
    "configuration": ("keys", "history"),
    "queue": ("entries", "taken"),
    "partitioner": ("party", "locks"),
}
_ALL_PARTS = frozenset(part for parts in _PARTS.values() for part in parts)
_CLAIMS = "-claims"
BESIDE = (KAZOOS_QUEUE, _CLAIMS)
"""The ends of paths that are parts of the recipe at the path without them."""


def may_use(path: str) -> Iterable[str]:
    """The paths whose recipe may depend on the children of a path, itself included."""
    yield path
    name = basename(path)
    if name in _ALL_PARTS:
        yield parent(path)
    for suffix in BESIDE:
        if name.endswith(suffix) and name != suffix:
            yield path.removesuffix(suffix)


def possible_parts(path: str) -> list[str]:
    """The paths that are parts of the recipe at a path, if that has some."""
    return [*(path + each for each in BESIDE), *(join(path, part) for part in _ALL_PARTS)]


def semaphore_layout(tree: ZnodeTree, path: str) -> str:
    """The layout of the semaphore at a path, curator or kazoo; empty if there is none."""
    children = tree.children(path)
    if PERMITS in children:
        permits = tree.children(join(path, PERMITS))
        # A queue below it, or a permit, whose name ends in this.
        waiting = tree.children(join(path, WAITING))
        if WAITING in children or waiting or any(map(_PERMIT.search, permits)):
            return CURATOR
    is_beside = path != "/" and f"{basename(path)}{KAZOOS_QUEUE}" in tree.children(parent(path))
    return KAZOO if is_beside and len(permits_of(children, KAZOO)) == len(children) else ""


def is_part(tree: ZnodeTree, path: str) -> bool:
    """Whether a path is a part of the recipe at another one."""
    name, above = basename(path), parent(path)
    is_kazoos = name.endswith(KAZOOS_QUEUE) and name != KAZOOS_QUEUE
    if is_kazoos and semaphore_layout(tree, path.removesuffix(KAZOOS_QUEUE)) == KAZOO:
        return True
    if name not in _ALL_PARTS or path == above:
        return False
    if name in (PERMITS, WAITING) and semaphore_layout(tree, above) == CURATOR:
        return True
    recipe = _composite(tree, above)
    return recipe is not None and name in _PARTS[recipe.kind]


# --- recipes -------------------------------------------------------------------------------------

_PERMIT = re.compile("lease-[0-9]{10}$", re.ASCII)
_TASK = re.compile("task-[0-9]{10}", re.ASCII)
_VERSION = re.compile("[0-9]{10,19}", re.ASCII)
_UNIQUE = re.compile("[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.ASCII)
_PARTY = re.compile("[0-9a-f]{32}__party__|.+-[0-9a-f]{32}-[0-9]{10}", re.ASCII)

_ITEMS = (
    ("priority queue", re.compile(r"queue-[01][0-9A-F]{8}-?[0-9]{9,10}", re.ASCII)),
    ("delay queue", re.compile(r"queue-\|[0-9A-F]{8,13}\|-?[0-9]{9,10}", re.ASCII)),
    ("queue", re.compile(r"(?:queue-(?:\|[^|]*\|)?|qn-)-?[0-9]{9,10}", re.ASCII)),
    ("queue", re.compile("entry-[0-9]{3}-[0-9]{10}", re.ASCII)),
)
_MANY = (_TASK, *(form for _, form in _ITEMS))


def recipe_at(tree: ZnodeTree, path: str) -> OtherRecipe | None:
    """The recipe at a path, if it has the layout of one, and is no contender queue."""
    if is_part(tree, path):
        return None
    found = _composite(tree, path) or _items(tree, path)
    if found is not None:
        return replace(found, claims=tuple(_claims_of(tree, found)))
    if path == "/":
        return None
    return _members(tree, path) or _keys(tree, path) or _by_data(tree, path)


def _composite(tree: ZnodeTree, path: str) -> OtherRecipe | None:
    children = tree.children(path)
    below = {part: tree.children(join(path, part)) for part in _ALL_PARTS if part in children}
    if "tasks" in below or "results" in below:
        open_, done = (
            {name for name in below.get(part, ()) if _TASK.fullmatch(name)}
            for part in ("tasks", "results")
        )
        claimed = open_.intersection(below.get("claims", ()))
        if open_ or done:
            tasks = ("open", len(open_ - done)), ("claimed", len(claimed)), ("done", len(done))
            return OtherRecipe(path, "task board", tasks)
    if "keys" in below and "history" in below:
        versions = [int(name) for name in below["history"] if _VERSION.fullmatch(name)]
        if versions:
            counts = ("version", max(versions)), ("keys", len(below["keys"]))
            return OtherRecipe(path, "configuration", counts)
    if "entries" in below and "taken" in below and _items_in(below["entries"]) == "queue":
        counts = ("items", len(below["entries"])), ("claimed", len(below["taken"]))
        return OtherRecipe(path, "queue", counts)
    if "party" in below and "locks" in below:
        members = _members(tree, join(path, "party"))
        if members is not None:
            counts = (("members", len(members.members)), ("items", len(below["locks"])))
            return OtherRecipe(path, "partitioner", counts, members.members)
    return None


def _items(tree: ZnodeTree, path: str) -> OtherRecipe | None:
    children = tree.children(path)
    kind = _items_in(children)
    if not kind:
        return None
    claimed = tree.children(f"{path}{_CLAIMS}").keys() & children.keys()
    items = sum(any(form.fullmatch(name) for _, form in _ITEMS) for name in children)
    return OtherRecipe(path, kind, (("items", items), ("claimed", len(claimed))))


def items_of(tree: ZnodeTree, recipe: OtherRecipe) -> list[RecipeItem]:
    """The items of a queue, or the open tasks of a board, first come first; else none.

    Of a `Once` the keys: those that run, then those that are done, the last one first.
    """
    if recipe.kind == "once":
        keys = [
            RecipeItem(
                join(recipe.path, name),
                unquote(name),
                stat,
                _runner(recipe.path, name, (stat, data)) if stat.ephemeral_owner else None,
                None if stat.ephemeral_owner else _done_by(data),
            )
            for name, (stat, data) in tree.children(recipe.path).items()
        ]
        return sorted(keys, key=lambda one: (one.claim is None, -one.stat.czxid))
    items, _ = _places_of_items(tree, recipe)
    forms = [_TASK] if recipe.kind == "task board" else [form for _, form in _ITEMS]
    claims = {basename(one.path): one for one in recipe.claims}
    found = tree.children(items) if items else {}
    # In each layout, the order of the names is that of the items.
    names = sorted(name for name in found if any(form.fullmatch(name) for form in forms))
    return [RecipeItem(join(items, name), name, found[name][0], claims.get(name)) for name in names]


def _claims_of(tree: ZnodeTree, recipe: OtherRecipe) -> list[RecipeMember]:
    items, claims = _places_of_items(tree, recipe)
    there = tree.children(items) if items else {}
    found = sorted(tree.children(claims).items()) if claims else []
    return [
        RecipeMember(join(claims, name), _claimant(data), stat)
        for name, (stat, data) in found
        if name in there
    ]


def _places_of_items(tree: ZnodeTree, recipe: OtherRecipe) -> tuple[str, str]:
    """The paths above the items of a recipe, and above the claims on them; empty if it has none."""
    path = recipe.path
    if recipe.kind == "task board":
        return join(path, "tasks"), join(path, "claims")
    if not recipe.kind.endswith("queue"):
        return "", ""
    if "entries" in tree.children(path):
        return join(path, "entries"), join(path, "taken")
    return path, f"{path}{_CLAIMS}"


def _claimant(data: bytes | None) -> str:
    """The worker in the data of a claim: in JSON on a task board, else as text."""
    if not data or len(data) > MOST_DATA:
        return ""
    try:
        worker = parsing.json_object(data).get("worker")
    except MalformedError:
        worker = None
    return worker if isinstance(worker, str) else parsing.lossy_text(data)


def _items_in(children: Mapping[str, Znode]) -> str:
    """The kind of queue that has the first item among these; empty if there is none."""
    for name, (stat, _) in children.items():
        if sequence_of(name) is not None and not stat.ephemeral_owner:
            for kind, form in _ITEMS:
                if form.fullmatch(name):
                    return kind
    return ""


def _keys(tree: ZnodeTree, path: str) -> OtherRecipe | None:
    children = tree.children(path)
    if not any(data and data.startswith(DONE) for _, data in children.values()):
        return None
    running = {name: one for name, one in children.items() if one[0].ephemeral_owner}
    counts = ("running", len(running)), ("done", len(children) - len(running))
    members = tuple(_runner(path, *each) for each in sorted(running.items()))
    return OtherRecipe(path, "once", counts, members)


def _runner(path: str, name: str, znode: Znode) -> RecipeMember:
    return RecipeMember(join(path, name), parsing.lossy_text(znode[1] or b""), znode[0])


def _done_by(data: bytes | None) -> str:
    return parsing.lossy_text((data or b"").removeprefix(DONE))


def _by_data(tree: ZnodeTree, path: str) -> OtherRecipe | None:
    stat, data = tree.get(path) or (None, None)
    if data == BARRIER_MARK:
        return OtherRecipe(path, "barrier", note="set: processes wait at it")
    limit = limit_in(path, stat, data)
    if limit is None:
        return None
    numbers = limit.numbers
    note = f"{numbers.rate:g} in {numbers.per:g} s, at most {numbers.burst} at once"
    return OtherRecipe(path, "rate limit", note=note)


def limit_in(path: str, stat: Stat | None, data: bytes | None) -> Write | None:
    """The last write of the rate limit at a path; None if these are not the data of one."""
    if stat is None or data is None or not data.startswith(b'{"rate":'):
        return None
    try:
        return Write.parse(path, data, stat)
    except InvalidDataError:
        return None


def _members(tree: ZnodeTree, path: str) -> OtherRecipe | None:
    children = tree.children(path)
    others = [name for name in children if name != READY]
    if not others or not all(_is_member(name, children[name][0]) for name in others):
        return None
    if READY in children and children[READY][0].ephemeral_owner:
        return None
    instances = {name: _instance(name, children[name][1]) for name in sorted(others)}
    members = tuple(
        RecipeMember(
            join(path, name), where or _identity(name, children[name][1]), children[name][0]
        )
        for name, (_, where) in instances.items()
    )
    if {service for service, _ in instances.values()} == {basename(path)}:
        kind = "service"
    elif READY in children or all(map(_UNIQUE.fullmatch, others)):
        kind = "double barrier"
    else:
        # The data of a key are the identity of its runner, which is never empty. A member's may be.
        kind = "group or once" if all(children[name][1] for name in others) else "group"
        if any(_PARTY.fullmatch(name) for name in others):
            kind = "group"
    return OtherRecipe(path, kind, (("members", len(members)),), members)


def _is_member(name: str, stat: Stat) -> bool:
    """Whether a znode may be a member's: ephemeral, and without a number, except aiozk's."""
    is_numbered = sequence_of(name) is not None and not _UNIQUE.fullmatch(name)
    return bool(stat.ephemeral_owner) and (not is_numbered or bool(_PARTY.fullmatch(name)))


def _identity(name: str, data: bytes | None) -> str:
    if data and (_UNIQUE.fullmatch(name) or _PARTY.fullmatch(name)) and len(data) <= 256:
        return parsing.lossy_text(data)
    return name


def _instance(name: str, data: bytes | None) -> tuple[str, str]:
    """The service of the instance in a znode's data, and its address; empty if there is none."""
    if not data or len(data) > MOST_DATA or not data.startswith(b"{"):
        return "", ""
    try:
        instance = parsing.json_object(data)
    except MalformedError:
        return "", ""
    service, host = instance.get("name"), instance.get("address")
    if instance.get("id") != name or not isinstance(service, str):
        return "", ""
    port = instance.get("port") or instance.get("sslPort")
    where = host if isinstance(host, str) else ""
    return service, f"{where}:{port}" if where and type(port) is int else where


def letter_in(data: bytes) -> DeadLetter | None:
    """The dead letter in the data of an item: JSON behind the end of the item's format."""
    begin = data.rfind(b'{"item":')
    try:
        fields = parsing.json_object(data[begin:]) if begin > 0 else {}
    except MalformedError:
        return None
    item, attempts, reason = (fields.get(name) for name in ("item", "attempts", "reason"))
    if not (isinstance(item, str) and type(attempts) is int and isinstance(reason, str)):
        return None
    return DeadLetter(item, attempts, reason)


def needs_data(name: str, stat: Stat) -> bool:
    """Whether a recipe can only be shown with the data of a znode of that name."""
    if stat.ephemeral_owner:
        return True
    size = stat.data_length
    if stat.num_children or size > MOST_SMALL:
        return False
    if size == len(BARRIER_MARK):
        return True
    # A done key is never written again. The data of items, which may be many, say nothing.
    may_be = size >= LEAST_LIMIT or (len(DONE) < size and not stat.version)
    return may_be and not any(form.fullmatch(name) for form in _MANY)
