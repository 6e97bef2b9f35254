"""Every parser of data from other processes, with its errors.

`PARSERS` is the table, `NO_PARSERS` the functions that look like one and are none, each with the
reason. test_parsers.py runs hostile data through all of them, and fails if a function of
the package parses something and is in neither (`parsing.parsing_calls`).

To add a parser: write it with `aiolead._util.parsing`, and give it a row here, or `parses` in the
row of its recipe (`kit/every_recipe.py`). Its `covers` names the function and those that only it
calls.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from kit.every_recipe import RECIPES

from aiolead import ACL, ServiceInstance, admin
from aiolead._client.net import host_sources as discovery
from aiolead._recipes import attempts, codec, condition, unrecognized
from aiolead._recipes import barriers as barrier_membership
from aiolead._recipes import config as snapshot
from aiolead._recipes import kernel as contention
from aiolead._recipes import queue_items as item_format
from aiolead._recipes import reading as participants
from aiolead._recipes import semaphore as parts
from aiolead._recipes.layouts import LAYOUTS, LIBRARIES, Role, names_of
from aiolead._recipes.task_board import Progress, decode_result
from aiolead._session.authentication import Exchange
from aiolead._util import contender_names as kinds
from aiolead._util.parsing import MalformedError
from aiolead._wire import config_text as config
from aiolead._wire import digest_md5, handshake, jute, replies, versions
from aiolead._wire.codes import XID_SASL, OpCode
from aiolead._wire.jute import Reader, Record, Writer
from aiolead._wire.long_frames import LongFrame, LongReader
from aiolead._wire.requests import Create
from aiolead.cli import contender_queue as line
from aiolead.cli import recipe_layouts as recipes
from aiolead.cli import render, trees, znodes
from aiolead.cli import server_inquiry as words
from aiolead.cli import server_survey as survey
from aiolead.cli.dashboard import doors
from aiolead.cli.doctor import queue_checks as lines
from aiolead.cli.doctor import server_checks as servers
from aiolead.cli.exits import CommandError
from aiolead.errors import (
    AuthFailedError,
    ConfigurationError,
    InvalidDataError,
    MixedLayoutError,
    RemoteWireError,
)
from aiolead.model import CreateMode, Stat
from aiolead.paths import as_listed, parse_connect_string, sequence_of, validate
from aiolead.types import Codec


class Reads(enum.Enum):
    """The sources of data."""

    ZNODE = "the data of a znode"
    NAME = "the name of a znode"
    SERVER = "an answer of a server"
    FILE = "a file"
    ARGUMENT = "an argument of the caller's"


@dataclass(frozen=True)
class Parser:
    """One parser.

    Attributes:
        name: for the ids of tests.
        reads: the source of its data.
        call: takes the data; text for a name, an argument, and what was decoded before.
        raises: the errors for malformed data; none if it raises nothing.
        covers: the functions that this runs, as `module:function`.
        takes_text: whether the data are text rather than bytes.
    """

    name: str
    reads: Reads
    call: Callable[[Any], object]
    raises: tuple[type[Exception], ...] = ()
    covers: tuple[str, ...] = ()
    takes_text: bool = False

    def __str__(self) -> str:
        return self.name


def _rows_of(reads: Reads) -> Callable[..., Parser]:
    def row(
        name: str,
        call: Callable[[Any], object],
        *covers: str,
        raises: tuple[type[Exception], ...] = (),
        takes_text: bool = False,
    ) -> Parser:
        """A parser; `covers` are functions, as `module: function function`."""
        functions = [
            f"{module}:{function}"
            for module, names in (each.split(": ") for each in covers)
            for function in names.split()
        ]
        return Parser(name, reads, call, raises, tuple(functions), takes_text)

    return row


of_znode, of_name, of_server, of_file, of_argument = map(_rows_of, Reads)

STAT = Stat(1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1)
_INVALID = (InvalidDataError,)
_MALFORMED = (MalformedError,)
_WIRE = (RemoteWireError,)


def _raise_away(check: Callable[[str], object]) -> Callable[[str], object]:
    return lambda name: check(f"/{name}")


def _layouts(name: str) -> list[object]:
    """All that the layouts are asked about a name."""
    found: list[object] = []
    for layout in LIBRARIES:
        for role, names in layout.names.items():
            found += [names.is_reader(name), names.fit(name), names.misfit(name)]
            found += [names.have(name), names.count_in(-1, name)]
            if role is Role.WRITE:
                found.append(names.as_reader(name))
    return found


def _recipe_at(name: str) -> object:
    """The recipes of a path that has children of that name, at and below it."""
    tree = recipes.ZnodeTree()
    tree.put("/p", STAT, name.encode(errors="replace"))
    for child in (name, "tasks", "results", "keys", "history", "entries", "taken"):
        tree.put(f"/p/{child}", STAT, b"{" + name.encode(errors="replace"))
        tree.put(f"/p/{child}/{name}", STAT, None)
    mine = STAT._replace(ephemeral_owner=1)
    tree.put(f"/q/{name}", mine, b'{"id": "' + name.encode(errors="replace") + b'"}')
    limit, key = f'{{"rate": 1, "per": 1, "burst": "{name}"'.encode(errors="replace"), f"/k/{name}"
    tree.put("/l", STAT, limit)
    tree.put(key, STAT, recipes.DONE + name.encode(errors="replace"))
    recipes.needs_data(name, STAT)
    recipes.letter_in(b"-" + limit.replace(b"rate", b"item"))
    tree.put(f"/p/claims/{name}", mine, b'{"worker": "' + name.encode(errors="replace") + b'"}')
    found = [recipes.recipe_at(tree, path) for path in ("/p", "/q", "/l", "/k")]
    kinds = {"queue": "/p", "task board": "/p", "once": "/k"}
    items = [recipes.items_of(tree, recipes.OtherRecipe(at, kind)) for kind, at in kinds.items()]
    return found, items


def _in_order(name: str) -> None:
    for layout in LAYOUTS:
        contention.in_order("/line", [name, name], names_of(layout, Role.LOCK))


def _key(kind: item_format.ItemNames, name: str) -> float | None:
    key = kind.key(name)
    return None if key is None else kind.due(key)


def _misfits(name: str) -> list[str]:
    return [
        misfit
        for layout in LAYOUTS[:2]
        for misfit in parts.parts_of("/permits", layout).misfits([name])
    ]


def _challenged(data: bytes) -> bytes | None:
    mechanism = digest_md5.DigestMD5("user", "password")
    mechanism.step(b"")
    return mechanism.step(data)


def _verified(data: bytes) -> bytes | None:
    mechanism = digest_md5.DigestMD5("user", "password")
    mechanism.step(b"")
    mechanism.step(b'realm="r",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess')
    return mechanism.step(data)


def _exchanged(data: bytes) -> bool:
    exchange = Exchange(lambda token: None)
    exchange.begin()
    exchange.answer(b"", is_last=False)
    return exchange.receive(data)


def _token(data: bytes) -> bool:
    """The same with a header before it."""
    writer = Writer()
    replies.ReplyHeader(XID_SASL, 0, 0).write(writer)
    return _exchanged(bytes(writer.buffer) + data)


def _config(data: bytes) -> object:
    read = config.parse_config(data)
    return str(read), [str(each) for each in read.servers], read.client_addresses(secure=True)


_WORDS = (words.NotToldError,)


def _answers(said: str) -> survey.ServerAnswers:
    """A server that gives the same answer to every word."""
    answers = survey.ServerAnswers(words.ServerAddress("zk", 2181))
    answers.conf = words.pairs_in(said, "conf")
    survey._take_srvr(answers, said)
    answers.monitor = words.pairs_in(said, "mntr")
    survey._take_monitor(answers)
    answers.mode = "leader"
    return answers


def _judged(said: str) -> object:
    answers = _answers(said)
    quorum = survey.quorum_of([answers], None)
    found = [*servers.judge_server(answers), *servers.judge_settings(answers, 10.0)]
    return [*found, *servers.judge_ensemble([answers], quorum, 1, has_names=False)]


def _instance(data: bytes) -> object:
    """Every use of an instance that another process has written."""
    read = ServiceInstance.from_json(data)
    assert ServiceInstance.from_json(read.to_json()) == read
    return hash(read), repr(read)


_READER = (
    "_wire.jute: Reader.blob Reader.blob_and_stat Reader.i32 Reader.i64 Reader.nullable_blob",
    "_wire.jute: Reader.nullable_text Reader.stat Reader.text Reader.texts _decoded",
)


def _names_in_steps(data: bytes) -> object:
    frame = LongFrame(data)
    frame.finish()
    return list(LongReader(frame, 0, 1000).texts_in_steps())


def _records() -> Iterator[Parser]:
    """Each record that a client reads."""
    for module in (replies, handshake):
        for name, made in vars(module).items():
            is_ours = inspect.isclass(made) and made.__module__ == module.__name__
            if is_ours and issubclass(made, Record) and (made.layout or "read" in vars(made)):
                yield of_server(name, partial(_read, made), *_READER, raises=_WIRE)


def _read(record: Any, data: bytes) -> object:
    return record.read(Reader(data))


def _codecs() -> Iterator[Parser]:
    for name in ("raw", "text", "json", "int32", "int64", "decimal"):
        made: Codec[Any] = getattr(Codec, name)()
        functions = "_recipes.codec: _from_digits _integer"
        yield of_znode(f"Codec.{name}", made.decode, functions, raises=_MALFORMED)
        read = partial(codec.decoded, made, "/path", stat=STAT)
        yield of_znode(f"a value, {name}", read, "_recipes.codec: decoded", raises=_INVALID)


PARSERS: tuple[Parser, ...] = (
    # --- the data of znodes
    of_znode(
        "ServiceInstance.from_json", _instance,
        "_recipes.service_registry: ServiceInstance.from_json", raises=_MALFORMED,
    ),
    of_znode("Progress.decode", Progress.decode, "_recipes.task_board: Progress.decode"),
    of_znode(
        "decode_result", partial(decode_result, "task-0000000000"),
        "_recipes.task_board: decode_result", raises=_MALFORMED,
    ),
    of_znode(
        "version_of a configuration", partial(snapshot.version_of, "/config", stat=STAT),
        "_recipes.config: version_of", raises=_INVALID,
    ),
    of_znode(
        "decode_entry of a configuration",
        partial(snapshot.decode_entry, "/config/history/0000000001", 1, stat=STAT),
        "_recipes.config: decode_entry _decode_value", raises=_INVALID,
    ),
    *_codecs(),
    of_znode(
        "a dead letter", attempts.decode_letter, "_recipes.attempts: decode_letter",
    ),
    of_znode(
        "an item of a queue", item_format.decode, "_recipes.queue_items: decode",
        raises=_MALFORMED,
    ),
    of_znode(
        "an item of a typed queue",
        lambda body: item_format.with_values(codec.Codec.json(), item_format.decode(body)),
        "_recipes.queue_items: with_values", raises=_MALFORMED,
    ),
    of_znode(
        "the limit of a semaphore", partial(parts.decoded, "/limit"),
        "_recipes.semaphore: decoded", raises=_INVALID,
    ),
    of_znode(
        "the limit of kazoo's semaphore", parts.decoded_digits,
        "_recipes.semaphore: decoded_digits",
    ),
    *(
        of_znode(f"data of {name}", call, covers, raises=_INVALID)
        for name, recipe in RECIPES.items()
        for covers, call in recipe.parses.items()
    ),
    of_name(
        "members of a double barrier", lambda name: barrier_membership.members_among([name]),
        "_recipes.barriers: members_among",
    ),
    of_znode(
        "a participant",
        lambda data: repr(participants.participant("/p", data, STAT, is_holder=False)),
    ),
    of_znode("limits of a quota", admin.decode_limits, "admin: _pairs", raises=_WIRE),
    of_znode("usage of a quota", admin.decode_usage, raises=_WIRE),
    of_znode(
        "the configuration of an ensemble", _config,
        "_wire.config_text: _parse_client _port parse_config parse_server", raises=_WIRE,
    ),
    of_znode("data as text", render.text_of, "cli.render: text_of"),
    of_znode("the beginning of data", render.preview),
    of_znode(
        "data as JSON", lambda data: render.as_json(render.data_as_json(data)),
        "cli.render: data_as_json",
    ),
    of_znode(
        "a time of a Stat",
        lambda data: render.moment(int.from_bytes(data[:8], "big", signed=True)),
        "cli.render: moment",
    ),
    # --- the names of znodes
    of_name("validate", _raise_away(validate), "paths: validate", raises=(ConfigurationError,)),
    of_name("sequence_of", sequence_of, "paths: sequence_of"),
    of_name("as_listed", lambda name: as_listed([name]), "paths: as_listed _is_valid"),
    of_name(
        "the path of a created znode",
        Create("/a-", b"", (), CreateMode.PERSISTENT_SEQUENTIAL.value, op=OpCode.CREATE2).checked,
        "_wire.requests: Create.checked", raises=_WIRE,
    ),
    of_name("known_name", kinds.known_name, "_util.contender_names: known_name"),
    of_name("leaders_in", kinds.leaders_in, "_util.contender_names: rules_of"),
    of_name(
        "recipes by their layouts", _recipe_at,
        "cli.recipe_layouts: _composite _items _items_in _is_member _identity _members",
        "cli.recipe_layouts: _instance semaphore_layout items_of _claimant needs_data letter_in",
        "cli.contender_queue: permits_of",
    ),
    of_name(
        "layouts", _layouts,
        "_recipes.layouts: Names.have Names.count_in Names.ours",
    ),
    of_name(
        "the contender queue", _in_order, "_recipes.kernel: in_order",
        raises=(MixedLayoutError,),
    ),
    of_name(
        "unrecognized children",
        lambda name: unrecognized.unrecognized_children([name, "lock-0000000001"]),
        "_recipes.unrecognized: _int",
    ),
    of_name(
        "a queue's names", partial(_key, item_format.ItemNames()),
        "_recipes.queue_items: ItemNames.key",
    ),
    of_name(
        "names by priority", partial(_key, item_format.PriorityNames()),
        "_recipes.queue_items: ItemNames.key",
    ),
    of_name(
        "names by time", partial(_key, item_format.DelayNames()),
        "_recipes.queue_items: ItemNames.key",
    ),
    of_name(
        "number_of a version of a configuration", snapshot.number_of,
        "_recipes.config: number_of",
    ),
    of_znode(
        "a signal of a condition", lambda data: condition.Signal.decode(data, STAT),
        "_recipes.condition: Signal.decode ConditionSignals._read",
    ),
    of_name(
        "waiters and signals of a condition",
        lambda name: condition.sort_out([name], [name, name]),
        "_recipes.condition: sort_out",
    ),
    of_name(
        "the parts of a semaphore", _misfits,
        "_recipes.semaphore: SemaphoreParts.misfits",
    ),
    of_name("contenders in the command", lambda name: line.places_of([name, "lock-1"])),
    of_name("a GUID in a name", lines._GUID.search, "cli.doctor.queue_checks: judge_ghosts"),
    of_name("a name on the screen", lambda name: render.shortened(name, 60)),
    # --- answers of servers
    of_server(
        "the words of a server", _judged, "cli.doctor.server_checks: judge_server",
        "cli.server_survey: _take_srvr _version_in", "cli.server_inquiry: count_in",
        raises=_WORDS, takes_text=True,
    ),
    of_server(
        "sessions in cons", words.sessions_in_cons, "cli.server_inquiry: _session", raises=_WORDS,
        takes_text=True,
    ),
    of_server("sessions in dump", words.sessions_in_dump, raises=_WORDS, takes_text=True),
    of_server(
        "the body of an admin server",
        lambda data: words.admin_answer(b"HTTP/1.0 200 OK\r\n\r\n" + data),
        "cli.server_inquiry: admin_answer", raises=_WORDS,
    ),
    of_server(
        "the date of an admin server",
        lambda data: words.admin_answer(b"x\r\nDate: " + data + b'\r\n\r\n{"command": "x"}'),
        "cli.server_inquiry: _date", raises=_WORDS,
    ),
    *_records(),
    of_server(
        "names in steps", _names_in_steps,
        "_wire.long_frames: LongReader.texts_in_steps LongReader._texts_at_hand", raises=_WIRE,
    ),
    of_server(
        "frames", lambda data: list(jute.FrameReader(jute.DEFAULT_MAX_FRAME).frames(data)),
        "_wire.jute: FrameReader.frames FrameReader._split other_protocol", raises=_WIRE,
    ),
    of_server(
        "the header of a reply", lambda data: Reader(b"").open(data),
        "_wire.jute: Reader.open", raises=_WIRE,
    ),
    of_server("release_in", versions.release_in, "_wire.versions: release_in _version"),
    of_server(
        "directives of DIGEST-MD5", digest_md5.parse, "_wire.digest_md5: parse", raises=_MALFORMED,
    ),
    of_server("a challenge of DIGEST-MD5", _challenged, raises=(AuthFailedError,)),
    of_server("the proof of DIGEST-MD5", _verified, raises=(AuthFailedError,)),
    of_server("an answer to SASL", _exchanged, raises=(RemoteWireError, AuthFailedError)),
    of_server("a token of SASL", _token, raises=(RemoteWireError, AuthFailedError)),
    *(
        of_server(name, partial(words.pairs_in, word=name), raises=_WORDS, takes_text=True)
        for name in ("srvr", "conf", "mntr")
    ),
    # --- files, and what stands in the place of one
    of_file(
        "servers_of", discovery.servers_of, "paths: _is_ipv6 _looks_cut _parse_host _scheme",
        raises=(ConfigurationError,), takes_text=True,
    ),
    of_server(
        "servers_of an answer of the DNS", lambda text: discovery.servers_of([(text, 2181)]),
        raises=(ConfigurationError,), takes_text=True,
    ),
    of_file(
        "a line of an export", lambda line: trees._parse((1, line)), "cli.trees: _parse",
        raises=(CommandError,),
    ),
    # --- arguments
    of_argument(
        "parse_connect_string", parse_connect_string, raises=(ConfigurationError,), takes_text=True,
    ),
    of_argument(
        "parse_version", partial(versions.parse_version, name="version"),
        "_wire.versions: parse_version", raises=(ConfigurationError,), takes_text=True,
    ),
    of_argument(
        "ACL.ip", lambda text: ACL.ip(f"10.0.0.0/{text}"), "model: ACL.ip",
        raises=(ConfigurationError,), takes_text=True,
    ),
    of_argument(
        "split_entries", partial(znodes.split_entries, name="--default-acl"),
        raises=(ConfigurationError,), takes_text=True,
    ),
    of_argument("host_of", doors.host_of, takes_text=True),
)  # fmt: skip

NO_PARSERS: dict[str, str] = {
    "_wire.jute:java_text_bytes": "it writes text that was checked before",
    "cli.options:listening_address": "an option, whose error is ConfigurationError",
    "_client.guardian.process:Guardian._ask": "an exception ends this attempt alone",
    "_client.guardian.control:_reap_those_before": "numbers of processes, as the kernel lists them",
    "_client.guardian.process:": "the arguments that our own client gives it",
    "_client.guardian.process:read_frame": "bounded; an exception ends this attempt alone",
    "_client.guardian.process:Guardian._read_control": "written by our own client",
    "cli.rehearse:_seconds": "an option, whose error is ConfigurationError",
    "cli.rehearse:_zxid": "an option, whose error is ConfigurationError",
    "cli.rehearse:_server": "an option, whose error is ConfigurationError",
    "cli.herd:Frames.feed": "the conversation of our own client with our own server",
    "cli.top_keys:keys_in": "bytes that a person has typed; any of them are text",
    "cli.dashboard.connections:_group": "the address of a connection, from the system",
    "_client.api.operations:checked_duration": "an argument, within bounds by then",
    "_client.net.four_letter_words:Peer._take": "a constant",
    "_util.escaping:_escape": "escaped by Python, so it is ASCII",
    "_recipes.recipe:_checked_real": "an argument, whose error is ConfigurationError",
    "_recipes.neighbours:_refuse_semaphore": "yes or no for each name",
    "_recipes.neighbours:refuse_items": "yes or no for each name",
    "_recipes.queues:_checked_delay": "an argument, whose error is ConfigurationError",
    "_recipes.queues:ItemProducer._refuse_others": "yes or no for each name",
    "_recipes.semaphore:refuse_misfits": "yes or no for each name",
    "_session.watches:WatchRegistry.rearm": "two zxids, of which one may be infinite",
    "_recipes.task_board:_working": "Progress.decode, which is in the table",
    "_recipes.codec:_to_json": "reads back what it has just written",
    "_recipes.config:_encode_value": "of the caller: text, or base64",
    "_recipes.layouts:_checked": "numbers that are constants",
    "_recipes.recipe:": "marks that are constants",
    "_recipes.group:score": "a digest of ours",
    "_recipes.exclusive:HeldName.number": "the name of our own znode",
    "_session.liveness:Liveness.begun": "four bytes, counted before",
    "adapters.aiozk._session:connect_string": "the ports that aiozk was given",
    "adapters.aiozk._session:Bridge._fired": "an enumeration",
    "adapters.aiozk.__init__:_check_version": "the version of an installed package",
    "blocking._proxy:ElectionBase.run": "an argument, whose error is ConfigurationError",
    "cli.dashboard.doors:address_in": "an address, or else a name",
    "cli.dashboard.serving:DashboardServer.serve": "the port of our own socket",
    "cli.child:Child._read": "a message of our own keeper; any other one ends it",
    "cli.demo_contender:main": "an argument that our own command gives",
    "cli.demo_processes:DemoProcess.take": "a message of our own process; any other one is text",
    "cli.doctor.reachability:_reach": "an address that the resolver gave",
    "cli.doctor.reachability:_check_tls": "the date of a certificate that is trusted, or no date",
    "cli.process_keeper:ProcessKeeper._kill_adopted": "numbers of processes, by the kernel",
    "cli.process_keeper:ProcessKeeper._read": "a message of our own command",
    "cli.process_keeper:ProcessKeeper._on_start": "a message of our own child process",
    "cli.app:_misunderstood": "the arguments of the user",
    "cli.operators:ephemerals": "an argument of the user",
    "cli.trees:grep": "an argument of the user",
    "cli.znodes:_has_hash": "an argument of the user",
    "cli.server:_users": "a file of the user's, whose error is ConfigurationError",
    "cli.config_file:fill_in_options": "an argument",
    "cli.config_file:_chosen": "an argument",
    "cli.config_file:_read": "a file of the user's, whose error is ConfigurationError",
    "cli.znodes:_show": "a text by then, cut between two characters",
    "_util.name_lookup:is_literal": "an address, or else a name",
    "cli.process_keeper:": "an argument that our own command gives",
    "cli.process_keeper:ProcessKeeper._patience": "a time of ours",
    "_util.escaping:lasting": "a time of ours, or from a Stat: 64 bits",
    "_recipes.once:_checked_ttl": "an argument, whose error is ConfigurationError",
    "events:_blocked": "fields of events, which are ours",
    "events:_missing": "fields of events, which are ours",
    "events:_opened": "fields of events, which are ours",
    "events:_waiting": "fields of events, which are ours",
    "instrumentation.otel:_server": "the name of a server that the client has connected to",
    "cli.top_picture:Picture._safe": "escaped by Python, so it is ASCII",
    "instrumentation.measures:Measures._of_session": "fields of events, which are ours",
    "instrumentation.measures:Measures.of": "fields of events, which are ours",
    "instrumentation.otel:OpenTelemetrySink._trace": "fields of events, which are ours",
    "model:Auth.acl": "an argument, whose error is ConfigurationError",
}
"""Functions that parse nothing which another process has written, and why."""
