"""Every parser of what other processes wrote: what it reads, and what it raises.

`PARSERS` is the table, `NO_PARSERS` the functions that look like one and are none, each with the
reason. test_parsers.py runs hostile data through all of them, and fails if a function of
the package parses something and is in neither (`parsing.parsing_calls`).

To add a parser: write it with `aiolead._parsing`, and give it a row here. Its `covers` names the
function and those that only it calls.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiolead import ACL, ServiceInstance
from aiolead import _contender_names as kinds
from aiolead._client.api import quotas
from aiolead._client.net import host_sources as discovery
from aiolead._parsing import MalformedError
from aiolead._recipes._core import participants
from aiolead._recipes.barriers import barrier_membership
from aiolead._recipes.contention import kernel as contention
from aiolead._recipes.contention import unrecognized
from aiolead._recipes.contention.layouts import LAYOUTS, Role
from aiolead._recipes.locks import condition_signals
from aiolead._recipes.locks.semaphore import parts
from aiolead._recipes.queues import item_format
from aiolead._recipes.tasks.task_records import Progress, decode_result
from aiolead._recipes.values import codec
from aiolead._recipes.values import config_snapshot as snapshot
from aiolead._session.authentication import Exchange
from aiolead._wire import config_text as config
from aiolead._wire import digest_md5, framing, handshake, replies, versions
from aiolead._wire.codes import XID_SASL, OpCode
from aiolead._wire.jute import Reader, Record, Writer
from aiolead._wire.long_frames import LongFrame, LongReader
from aiolead._wire.requests import Create
from aiolead.cli import acl as entries
from aiolead.cli import contender_queue as line
from aiolead.cli import recipe_layouts as recipes
from aiolead.cli import render
from aiolead.cli import server_inquiry as words
from aiolead.cli import server_survey as survey
from aiolead.cli.dashboard import doors
from aiolead.cli.doctor import queue_checks as lines
from aiolead.cli.doctor import server_checks as servers
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
    """What a parser reads."""

    ZNODE = "the data of a znode"
    NAME = "the name of a znode"
    SERVER = "what a server says"
    FILE = "a file"
    ARGUMENT = "an argument of the caller's"


@dataclass(frozen=True)
class Parser:
    """One parser.

    Attributes:
        name: for the ids of tests.
        reads: what it reads.
        call: takes the data; text for a name, an argument, and what was decoded before.
        raises: what it raises for everything that is malformed; nothing if it raises nothing.
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


STAT = Stat(1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1)
_INVALID = (InvalidDataError,)
_MALFORMED = (MalformedError,)
_WIRE = (RemoteWireError,)


def _raise_away(check: Callable[[str], object]) -> Callable[[str], object]:
    return lambda name: check(f"/{name}")


def _layouts(name: str) -> list[object]:
    """All that the layouts are asked about a name."""
    found: list[object] = []
    for layout in LAYOUTS:
        found.append(layout._is_reader(name))
        for role in layout._forms:
            found += [layout._fits(role, name), layout._misfit(role, name)]
            found += [layout._is_like_ours(role, name), layout._count_in(role, -1, name)]
            if role is Role.WRITE:
                found.append(layout._downgraded(name))
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
    return [recipes.recipe_at(tree, path) for path in ("/p", "/q")]


def _in_order(name: str) -> None:
    for layout in LAYOUTS:
        contention.in_order("/line", [name, name], layout, Role.LOCK)


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
    """What a server says of itself, all of it the same."""
    answers = survey.ServerAnswers(words.ServerAddress("zk", 2181), conf=words.by_equals(said))
    survey._take_srvr(answers, said)
    answers.monitor = words.by_tab(said)
    survey._take_monitor(answers)
    answers.mode = "leader"
    return answers


def _judged(said: str) -> object:
    answers = _answers(said)
    quorum = survey.quorum_of([answers], None)
    found = [*servers.judge_server(answers), *servers.judge_settings(answers, 10.0)]
    return [*found, *servers.judge_ensemble([answers], quorum, 1, has_names=False)]


def _instance(data: bytes) -> object:
    """All that is done with an instance of somebody else's."""
    read = ServiceInstance.from_json(data)
    assert ServiceInstance.from_json(read.to_json()) == read
    return hash(read), repr(read)


_READER = tuple(
    f"_wire.jute:Reader.{each}"
    for each in (
        "blob",
        "blob_and_stat",
        "i32",
        "i64",
        "nullable_blob",
        "nullable_text",
        "stat",
        "text",
        "texts",
    )
)


def _names_in_steps(data: bytes) -> object:
    frame = LongFrame(data)
    frame.finish()
    return list(LongReader(frame, 0, 1000).texts_in_steps())


def _records() -> Iterator[Parser]:
    """What servers answer: each record that a client reads."""
    for module in (replies, handshake):
        for name, made in vars(module).items():
            is_ours = inspect.isclass(made) and made.__module__ == module.__name__
            if is_ours and issubclass(made, Record) and (made.layout or "read" in vars(made)):
                yield Parser(
                    name,
                    Reads.SERVER,
                    partial(_read, made),
                    _WIRE,
                    (*_READER, "_wire.jute:_decoded"),
                )


def _read(record: Any, data: bytes) -> object:
    return record.read(Reader(data))


def _codecs() -> Iterator[Parser]:
    made: Sequence[Codec[Any]] = (
        Codec.raw(),
        Codec.text(),
        Codec.json(),
        Codec.int32(),
        Codec.int64(),
        Codec.decimal(),
    )
    for name, each in zip(("raw", "text", "json", "int32", "int64", "decimal"), made, strict=True):
        yield Parser(
            f"Codec.{name}",
            Reads.ZNODE,
            each.decode,
            _MALFORMED,
            ("_recipes.values.codec:_from_digits", "_recipes.values.codec:_integer"),
        )
        yield Parser(
            f"a value, {name}",
            Reads.ZNODE,
            partial(codec.decoded, each, "/path", stat=STAT),
            _INVALID,
            ("_recipes.values.codec:decoded",),
        )


PARSERS: tuple[Parser, ...] = (
    # --- the data of znodes
    Parser(
        "ServiceInstance.from_json",
        Reads.ZNODE,
        _instance,
        _MALFORMED,
        ("_recipes.discovery.instance:ServiceInstance.from_json",),
    ),
    Parser(
        "Progress.decode",
        Reads.ZNODE,
        Progress.decode,
        (),
        ("_recipes.tasks.task_records:Progress.decode",),
    ),
    Parser(
        "decode_result",
        Reads.ZNODE,
        partial(decode_result, "task-0000000000"),
        _MALFORMED,
        ("_recipes.tasks.task_records:decode_result",),
    ),
    Parser(
        "version_of a configuration",
        Reads.ZNODE,
        partial(snapshot.version_of, "/config", stat=STAT),
        _INVALID,
        ("_recipes.values.config_snapshot:version_of",),
    ),
    Parser(
        "decode_entry of a configuration",
        Reads.ZNODE,
        partial(snapshot.decode_entry, "/config/history/0000000001", 1, stat=STAT),
        _INVALID,
        (
            "_recipes.values.config_snapshot:_decode_entry",
            "_recipes.values.config_snapshot:_decode_value",
        ),
    ),
    *_codecs(),
    Parser(
        "an item of a queue",
        Reads.ZNODE,
        item_format.decode,
        _MALFORMED,
        ("_recipes.queues.item_format:decode",),
    ),
    Parser(
        "the limit of a semaphore",
        Reads.ZNODE,
        partial(parts.decoded, "/limit"),
        _INVALID,
        ("_recipes.locks.semaphore.parts:decoded",),
    ),
    Parser(
        "the limit of kazoo's semaphore",
        Reads.ZNODE,
        parts.decoded_digits,
        (),
        ("_recipes.locks.semaphore.parts:decoded_digits",),
    ),
    Parser(
        "members of a double barrier",
        Reads.NAME,
        lambda name: barrier_membership.members_among([name]),
        (),
        ("_recipes.barriers.barrier_membership:members_among",),
    ),
    Parser(
        "a participant",
        Reads.ZNODE,
        lambda data: repr(participants.participant("/p", data, STAT, is_holder=False)),
    ),
    Parser(
        "limits of a quota",
        Reads.ZNODE,
        quotas.decode_limits,
        _WIRE,
        ("_client.api.quotas:_pairs",),
    ),
    Parser("usage of a quota", Reads.ZNODE, quotas.decode_usage, _WIRE),
    Parser(
        "the configuration of an ensemble",
        Reads.ZNODE,
        _config,
        _WIRE,
        (
            "_wire.config_text:_parse_client",
            "_wire.config_text:_port",
            "_wire.config_text:parse_config",
            "_wire.config_text:parse_server",
        ),
    ),
    Parser("data as text", Reads.ZNODE, render.text_of, (), ("cli.render:text_of",)),
    Parser("the beginning of data", Reads.ZNODE, render.preview),
    Parser(
        "data as JSON",
        Reads.ZNODE,
        lambda data: render.as_json(render.data_as_json(data)),
        (),
        ("cli.render:data_as_json",),
    ),
    Parser(
        "a time of a Stat",
        Reads.ZNODE,
        lambda data: render.moment(int.from_bytes(data[:8], "big", signed=True)),
        (),
        ("cli.render:moment",),
    ),
    # --- the names of znodes
    Parser(
        "validate", Reads.NAME, _raise_away(validate), (ConfigurationError,), ("paths:validate",)
    ),
    Parser("sequence_of", Reads.NAME, sequence_of, (), ("paths:sequence_of",)),
    Parser(
        "as_listed",
        Reads.NAME,
        lambda name: as_listed([name]),
        (),
        ("paths:as_listed", "paths:_is_valid"),
    ),
    Parser(
        "the path of a created znode",
        Reads.NAME,
        Create("/a-", b"", (), CreateMode.PERSISTENT_SEQUENTIAL.value, op=OpCode.CREATE2).checked,
        _WIRE,
        ("_wire.requests:Create.checked",),
    ),
    Parser(
        "known_name",
        Reads.NAME,
        kinds.known_name,
        (),
        ("_contender_names:known_name",),
    ),
    Parser("leaders_in", Reads.NAME, kinds.leaders_in, (), ("_contender_names:leaders_in",)),
    Parser(
        "recipes by their layouts",
        Reads.NAME,
        _recipe_at,
        (),
        (
            "cli.recipe_layouts:_composite",
            "cli.recipe_layouts:_items",
            "cli.recipe_layouts:_items_in",
            "cli.recipe_layouts:_is_member",
            "cli.recipe_layouts:_identity",
            "cli.recipe_layouts:_members",
            "cli.recipe_layouts:_service_of",
            "cli.recipe_layouts:semaphore_layout",
            "cli.contender_queue:permits_of",
        ),
    ),
    Parser(
        "layouts",
        Reads.NAME,
        _layouts,
        (),
        (
            "_recipes.contention.layouts:Layout._is_own",
            "_recipes.contention.layouts:Layout._downgraded",
            "_recipes.contention.layouts:Layout._fits",
            "_recipes.contention.layouts:_Form.count_in",
            "_recipes.contention.layouts:Layout._ours",
        ),
    ),
    Parser(
        "the contender queue",
        Reads.NAME,
        _in_order,
        (MixedLayoutError,),
        ("_recipes.contention.kernel:in_order",),
    ),
    Parser(
        "unrecognized children",
        Reads.NAME,
        lambda name: unrecognized.unrecognized_children([name, "lock-0000000001"]),
        (),
        ("_recipes.contention.unrecognized:_int",),
    ),
    Parser(
        "a queue's names",
        Reads.NAME,
        partial(_key, item_format.ItemNames()),
        (),
        ("_recipes.queues.item_format:ItemNames.key",),
    ),
    Parser(
        "names by priority",
        Reads.NAME,
        partial(_key, item_format.PriorityNames()),
        (),
        ("_recipes.queues.item_format:ItemNames.key",),
    ),
    Parser(
        "names by time",
        Reads.NAME,
        partial(_key, item_format.DelayNames()),
        (),
        ("_recipes.queues.item_format:ItemNames.key",),
    ),
    Parser(
        "number_of a version of a configuration",
        Reads.NAME,
        snapshot.number_of,
        (),
        ("_recipes.values.config_snapshot:number_of",),
    ),
    Parser(
        "a signal of a condition",
        Reads.ZNODE,
        lambda data: condition_signals.Signal.decode(data, STAT),
        (),
        (
            "_recipes.locks.condition_signals:Signal.decode",
            "_recipes.locks.condition_signals:ConditionSignals._read",
        ),
    ),
    Parser(
        "waiters and signals of a condition",
        Reads.NAME,
        lambda name: condition_signals.sort_out([name], [name, name]),
        (),
        ("_recipes.locks.condition_signals:sort_out",),
    ),
    Parser(
        "the parts of a semaphore",
        Reads.NAME,
        _misfits,
        (),
        ("_recipes.locks.semaphore.parts:SemaphoreParts.misfits",),
    ),
    Parser(
        "contenders in the command",
        Reads.NAME,
        lambda name: line.places_of([name, "lock-1"]),
        (),
        (),
    ),
    Parser(
        "a GUID in a name",
        Reads.NAME,
        lines._GUID.search,
        (),
        ("cli.doctor.queue_checks:judge_ghosts",),
    ),
    Parser("a name on the screen", Reads.NAME, lambda name: render.shortened(name, 60)),
    # --- what servers say
    Parser(
        "what a server says of itself",
        Reads.SERVER,
        _judged,
        _WORDS,
        (
            "cli.doctor.server_checks:judge_server",
            "cli.server_survey:_take_monitor",
            "cli.server_survey:_take_srvr",
            "cli.server_inquiry:count_in",
        ),
        takes_text=True,
    ),
    Parser(
        "sessions in cons",
        Reads.SERVER,
        words.sessions_in_cons,
        _WORDS,
        ("cli.server_inquiry:_session",),
        takes_text=True,
    ),
    Parser("sessions in dump", Reads.SERVER, words.sessions_in_dump, _WORDS, takes_text=True),
    Parser(
        "the body of an admin server",
        Reads.SERVER,
        lambda data: words.admin_answer(b"HTTP/1.0 200 OK\r\n\r\n" + data),
        _WORDS,
        ("cli.server_inquiry:admin_answer",),
    ),
    Parser(
        "the date of an admin server",
        Reads.SERVER,
        lambda data: words.admin_answer(b"x\r\nDate: " + data + b'\r\n\r\n{"command": "x"}'),
        _WORDS,
        ("cli.server_inquiry:_date",),
    ),
    *_records(),
    Parser(
        "names in steps",
        Reads.SERVER,
        _names_in_steps,
        _WIRE,
        (
            "_wire.long_frames:LongReader.texts_in_steps",
            "_wire.long_frames:LongReader._texts_at_hand",
        ),
    ),
    Parser(
        "frames",
        Reads.SERVER,
        lambda data: list(framing.FrameReader(framing.DEFAULT_MAX_FRAME).frames(data)),
        _WIRE,
        (
            "_wire.framing:FrameReader.frames",
            "_wire.framing:FrameReader._split",
            "_wire.framing:other_protocol",
        ),
    ),
    Parser(
        "the header of a reply",
        Reads.SERVER,
        lambda data: replies.ReplyReader(1 << 20).open(data),
        _WIRE,
        ("_wire.replies:ReplyReader.open",),
    ),
    Parser(
        "version_in",
        Reads.SERVER,
        versions.version_in,
        (),
        ("_wire.versions:version_in", "_wire.versions:_version"),
    ),
    Parser(
        "directives of DIGEST-MD5",
        Reads.SERVER,
        digest_md5.parse,
        _MALFORMED,
        ("_wire.digest_md5:parse",),
    ),
    Parser("a challenge of DIGEST-MD5", Reads.SERVER, _challenged, (AuthFailedError,)),
    Parser("the proof of DIGEST-MD5", Reads.SERVER, _verified, (AuthFailedError,)),
    Parser("an answer to SASL", Reads.SERVER, _exchanged, (RemoteWireError, AuthFailedError)),
    Parser("a token of SASL", Reads.SERVER, _token, (RemoteWireError, AuthFailedError)),
    Parser("by_colon", Reads.SERVER, words.by_colon, _WORDS, takes_text=True),
    Parser("by_equals", Reads.SERVER, words.by_equals, _WORDS, takes_text=True),
    Parser("by_tab", Reads.SERVER, words.by_tab, _WORDS, takes_text=True),
    # --- files, and what stands in the place of one
    Parser(
        "servers_of",
        Reads.FILE,
        discovery.servers_of,
        (ConfigurationError,),
        ("paths:_is_ipv6", "paths:_looks_cut", "paths:_parse_host", "paths:_scheme"),
        takes_text=True,
    ),
    Parser(
        "servers_of an answer of the DNS",
        Reads.SERVER,
        lambda text: discovery.servers_of([(text, 2181)]),
        (ConfigurationError,),
        takes_text=True,
    ),
    # --- arguments
    Parser(
        "parse_connect_string",
        Reads.ARGUMENT,
        parse_connect_string,
        (ConfigurationError,),
        takes_text=True,
    ),
    Parser(
        "parse_version",
        Reads.ARGUMENT,
        partial(versions.parse_version, name="version"),
        (ConfigurationError,),
        ("_wire.versions:parse_version",),
        takes_text=True,
    ),
    Parser(
        "ACL.ip",
        Reads.ARGUMENT,
        lambda text: ACL.ip(f"10.0.0.0/{text}"),
        (ConfigurationError,),
        ("model:ACL.ip",),
        takes_text=True,
    ),
    Parser(
        "parse_entries",
        Reads.ARGUMENT,
        lambda text: entries.parse_entries([text]),
        (ConfigurationError,),
        takes_text=True,
    ),
    Parser("host_of", Reads.ARGUMENT, doors.host_of, takes_text=True),
)

NO_PARSERS: dict[str, str] = {
    "_wire.jute:java_text_bytes": "it writes text that was checked before",
    "cli.options:listening_address": "an option, whose error is ConfigurationError",
    "_client.guardian_process:Guardian._ask": "an exception ends this attempt alone",
    "_client.guardian_control:_reap_those_before": "numbers of processes, as the kernel lists them",
    "_client.guardian_process:": "the arguments that our own client gives it",
    "_client.guardian_process:read_frame": "bounded; an exception ends this attempt alone",
    "_client.guardian_process:Guardian._read_control": "what our own client writes",
    "cli.rehearse:_seconds": "an option, whose error is ConfigurationError",
    "cli.rehearse:_zxid": "an option, whose error is ConfigurationError",
    "cli.rehearse:_server": "an option, whose error is ConfigurationError",
    "cli.herd_measurement:Frames.feed": "the conversation of our own client with our own server",
    "cli.top_keys:keys_in": "bytes that a person has typed; any of them are text",
    "cli.dashboard.connections:_group": "the address of a connection, from the system",
    "_client.api.operations:checked_duration": "an argument, within bounds by then",
    "_client.net.four_letter_words:Peer._take": "a constant",
    "_escaping:_escape": "what Python has escaped is ASCII",
    "_recipes._core.arguments:_checked_real": "an argument, whose error is ConfigurationError",
    "_recipes._core.acquire:Acquirable._await_lease": "a bool",
    "_recipes.contention.neighbours:_refuse_semaphore": "yes or no for each name",
    "_recipes.locks.semaphore.parts:refuse_misfits": "yes or no for each name",
    "_session.watches.registry:WatchRegistry.rearm": "two zxids, of which one may be infinite",
    "_recipes.tasks.task_records:checked_progress": "an argument, within bounds by then",
    "_recipes.tasks.board:_working": "Progress.decode, which is in the table",
    "_recipes.values.codec:_to_json": "reads back what it has just written",
    "_recipes.values.config_snapshot:_encode_value": "of the caller: text, or base64",
    "_recipes.contention.layouts:_parsed": "numbers that are constants",
    "_recipes.membership.partitioner:score": "a digest of ours",
    "_recipes.locks.unique_names:HeldName.number": "the name of our own znode",
    "_session.requests.liveness:Liveness.begun": "four bytes, counted before",
    "adapters.aiozk._adapted_session:connect_string": "the ports that aiozk was given",
    "adapters.aiozk._adapted_session:Bridge._fired": "an enumeration",
    "adapters.aiozk.gate:check_version": "the version of an installed package",
    "blocking._proxy:ElectionBase.run": "an argument, whose error is ConfigurationError",
    "cli.dashboard.doors:address_in": "an address, or else a name",
    "cli.dashboard.serving:DashboardServer.serve": "the port of our own socket",
    "cli.child:Child._read": "a message of our own keeper; any other one ends it",
    "cli.exits:in_plain_words": "the number of an error of the system",
    "cli.demo_contender:main": "an argument that our own command gives",
    "cli.demo_processes:DemoProcess.take": "a message of our own process; any other one is text",
    "cli.doctor.reachability:_reach": "an address that the resolver gave",
    "cli.doctor.reachability:_check_tls": "the date of a certificate that is trusted, or no date",
    "cli.process_keeper:ProcessKeeper._kill_adopted": "numbers of processes, by the kernel",
    "cli.process_keeper:ProcessKeeper._read": "a message of our own command",
    "cli.server:_users": "a file of the user's, whose error is ConfigurationError",
    "cli.config_file:fill_in_options": "an argument",
    "cli.config_file:_chosen": "an argument",
    "cli.config_file:_read": "a file of the user's, whose error is ConfigurationError",
    "cli.znodes:_show": "a text by then, cut between two characters",
    "_name_lookup:is_literal": "an address, or else a name",
    "cli.process_keeper:": "an argument that our own command gives",
    "cli.process_keeper:ProcessKeeper._patience": "a time of ours",
    "cli.render:span": "a time of ours, or from a Stat: 64 bits",
    "cli.top_picture:Picture._safe": "what Python has escaped is ASCII",
    "instrumentation.measures:Measures._of_session": "fields of events, which are ours",
    "instrumentation.measures:Measures.of": "fields of events, which are ours",
    "instrumentation.otel:OpenTelemetrySink._trace": "fields of events, which are ours",
    "model:Auth.acl": "an argument, whose error is ConfigurationError",
}
"""Functions that parse nothing which another process has written, and why."""
