"""Hostile data and names: what another client of the ensemble, or a server, may write.

`DATA_CASES` and `NAME_CASES` are the fixed worst cases, each with an id. `hostile_data()` and
`hostile_names()` are the hypothesis strategies: the fixed cases and random variations of them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping

from hypothesis import strategies as st

MAX_DATA = 1_000_000
"""How many bytes a znode may have so that its `create` fits into a packet of 1 MiB."""

DEEP = 100_000
"""Levels of nesting, far more than Python's limit on recursion."""

BIDI = "\u202egpj.exe\u2066\u2069\u200f"
CONTROLS = "\x00\x07\x1b[2J\x1b]0;title\x07\r\n\t\x7f\x9b31m"
SEPARATORS = "\u2028\u2029\x85"
ARABIC_DIGITS = "\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660"

# --- JSON ----------------------------------------------------------------------------------------

JSON_FORMATS: Mapping[str, Mapping[str, object]] = {
    "instance": {
        "name": "web",
        "id": "a",
        "address": "10.0.0.7",
        "port": 80,
        "sslPort": 443,
        "payload": {"zone": "b"},
        "registrationTimeUTC": 1_700_000_000_000,
        "serviceType": "DYNAMIC",
        "uriSpec": {"parts": [{"value": "http://", "variable": False}]},
        "enabled": True,
        "weight": 1.0,
        "load": 0.5,
    },
    "config": {"identity": "a", "author": "b-1", "keys": {"k": "v", "l": {"base64": "AA=="}}},
    "progress": {"worker": "a", "progress": 0.5, "note": "half"},
    "result": {"worker": "a", "failed": False, "note": ""},
}
"""A valid object of each format of ours that is JSON."""

JSON_VALUES: Mapping[str, str] = {
    "400 digits": "1" + "0" * 400,
    "minus 400 digits": "-1" + "0" * 400,
    "5000 digits": "9" * 5000,
    "309 digits": "9" * 309,
    "64 bits": "18446744073709551616",
    "float overflow": "1e400",
    "greatest float": "1.7976931348623157e308",
    "least float": "5e-324",
    "negative": "-1",
    "zero": "0",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "minus Infinity": "-Infinity",
    "bool": "true",
    "null": "null",
    "empty text": '""',
    "text": '"1"',
    "lone surrogate": '"\\ud800"',
    "surrogate key": '{"\\udfff": 1}',
    "bidi": json.dumps(BIDI, ensure_ascii=False),
    "controls": json.dumps(CONTROLS + SEPARATORS),
    "list": "[]",
    "list of lists": "[[[]], [null]]",
    "object": "{}",
    "object of objects": '{"a": {"b": {"parts": [{"value": {}}]}}}',
    "broken parts": '{"parts": [{"value": "\\ud800", "variable": 1}, null]}',
    "broken base64": '{"k": {"base64": "=A=\\u00e9"}}',
    "base64 of a number": '{"k": {"base64": 1}}',
    "nested 65": "[" * 65 + "]" * 65,
    "nested": "[" * 10_000 + "]" * 10_000,
    "nested objects": '{"a":' * 10_000 + "1" + "}" * 10_000,
}
"""Hostile values for the keys of the formats, as JSON or nearly."""


def json_object(valid: Mapping[str, object], changed: Mapping[str, str]) -> bytes:
    """An object in JSON with some of its values replaced.

    Args:
        valid: the object.
        changed: texts that replace the values of some keys, as they are.
    """
    texts = {key: json.dumps(value) for key, value in valid.items()} | dict(changed)
    pairs = ",".join(f"{json.dumps(key)}:{text}" for key, text in texts.items())
    return f"{{{pairs}}}".encode()


def mistyped() -> Iterator[bytes]:
    """Each format with each hostile value at each of its keys, and without each key."""
    for name, valid in JSON_FORMATS.items():
        end = b"\nthe rest" if name == "result" else b""
        for key in valid:
            less = {other: value for other, value in valid.items() if other != key}
            yield json_object(less, {}) + end
            for text in JSON_VALUES.values():
                yield json_object(valid, {key: text}) + end


# --- data ----------------------------------------------------------------------------------------

DATA_CASES: Mapping[str, bytes | None] = {
    # A client may `create` with null instead of data.
    "null": None,
    "empty": b"",
    "blank": b" \t\r\n",
    "1 MB": b"a" * MAX_DATA,
    "1 MB of zeros": bytes(MAX_DATA),
    "1 MB of newlines": b"\n" * MAX_DATA,
    "1 MB of white space and a quote": b" " * (MAX_DATA - 1) + b'"',
    "a million digits": b"9" * MAX_DATA,
    "5000 digits": b"1" * 5000,
    "400 digits": b"1" + b"0" * 400,
    "minus 400 digits": b"-1" + b"0" * 400,
    "64 bits": b"9223372036854775808",
    "negative": b"-1",
    "underscores": b"1_000",
    "arabic digits": ARABIC_DIGITS.encode(),
    "no UTF-8": b"\xff\xfe\x00",
    "UTF-8 cut off": "é".encode()[:1],
    "UTF-8 overlong": b"\xc0\x80",
    "UTF-8 surrogate": b"\xed\xa0\x80",
    "UTF-16": '{"name": "web", "id": "a"}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "controls": CONTROLS.encode(),
    "bidi": (BIDI + SEPARATORS).encode(),
    "revoke": b"__REVOKE__\xff\x1b[2J",
    "revoke 1 MB": b"__REVOKE__" + b"\xff" * (MAX_DATA - 10),
    "not ready": b"__UNREADY__\xff\x1b[2J",
    "not ready, revoke": b"__REVOKE____UNREADY__",
    "int32 negative": struct.pack(">i", -(2**31)),
    "int32 greatest": struct.pack(">i", 2**31 - 1),
    "int32 zero": bytes(4),
    "int64 negative": struct.pack(">q", -(2**63)),
    "int64 greatest": struct.pack(">q", 2**63 - 1),
    "9 bytes": bytes(9),
    "item of negative length": struct.pack(">IBi", 0x0001_0001, 1, -1),
    "item of huge length": struct.pack(">IBi", 0x0001_0001, 1, 2**31 - 1) + b"a",
    "item of many parts": struct.pack(">I", 0x0001_0001) + struct.pack(">Bi", 1, 0) * 100_000,
    "item of unknown version": struct.pack(">I", 0xFFFF_FFFF),
    "JSON null": b"null",
    "JSON number": b"1",
    "JSON text": b'"a"',
    "JSON list": b"[]",
    "JSON object": b"{}",
    "JSON NaN": b"NaN",
    "JSON nested": b"[" * DEEP + b"]" * DEEP,
    "JSON nested and open": b"[" * MAX_DATA,
    "JSON objects and open": b'{"a":' * DEEP,
    "JSON line nested": b"[" * DEEP + b"]" * DEEP + b"\nrest",
    "JSON a million digits": b'{"name":"web","id":"a","weight":' + b"9" * MAX_DATA + b"}",
    "JSON a million keys": b"{" + b'"":0,' * 190_000 + b'"":0}',
    "JSON of escapes": b'"' + b"\\u202e" * 160_000 + b'"',
    "JSON backslashes": b'"' + b"\\" * (MAX_DATA - 1),
    **{
        name: json_object(JSON_FORMATS[name.split()[0]], changed)
        for name, changed in {
            "instance weight": {"weight": JSON_VALUES["400 digits"]},
            "instance load": {"load": JSON_VALUES["400 digits"]},
            "instance time": {"registrationTimeUTC": JSON_VALUES["400 digits"]},
            "instance name": {"name": '"\\ud800"'},
            "instance id with a slash": {"id": '"a/../b"'},
            "instance payload nested": {"payload": JSON_VALUES["nested"]},
            "instance braces": {
                "uriSpec": '{"parts":[{"value":"' + "{" * 500_000 + '","variable":true}]}'
            },
            "config keys nested": {"keys": JSON_VALUES["nested"]},
            "config surrogate": {"keys": '{"k": "\\udfff"}'},
            "config base64": {"keys": JSON_VALUES["broken base64"]},
            "progress digits": {"progress": JSON_VALUES["5000 digits"]},
        }.items()
    },
    "result surrogate": json_object(JSON_FORMATS["result"], {"note": '"\\ud800"'}) + b"\n",
    "quota digits": b"count=" + b"9" * 5000 + b",bytes=" + b"9" * 19,
    "quota separators": b",;" * 400_000,
    "quota words": b"a" * 80_000 + b"!",
    "server list": b"server." + b"9" * 5000 + b"=a:1:1;1\nversion=" + b"f" * 5000,
    "server version": b"version=-" + b"f" * 400,
    "server spaces": b"server.1" + b" " * 80_000 + b"!",
    "server colons": b"server.1=" + b"a:1" * 30_000,
    "challenge": b'nonce="' + b'\\"' * 1000,
    "challenge of commas": b"," * MAX_DATA,
    "version of digits": b"Zookeeper version: " + b"1" * 80_000,
}
"""The fixed worst cases of data: of a znode (None for null), or of a server's answer."""

# --- names ---------------------------------------------------------------------------------------

ALLOWED_NAMES: Mapping[str, str] = {
    "5000 digits": "1" * 5000,
    "5000 zeros": "0" * 5000,
    "minus 5000 digits": "-" + "9" * 5000,
    "sequence of 5000 digits": "lock-" + "9" * 5000,
    "arabic digits": ARABIC_DIGITS,
    "sequence of arabic digits": "lock-" + ARABIC_DIGITS,
    "superscripts": "lock-\u00b2\u00b3\u00b9\u2070\u2074\u2075\u2076\u2077\u2078\u2079",
    "wide digits": "\uff11" * 10,
    "greatest sequence": "lock-2147483647",
    "negative sequence": "lock--2147483648",
    "sequence beyond 32 bits": "lock-9999999999",
    "sequence of an election": "n_-000000001",
    "short sequence": "lock-1",
    "underscores": "1_000_000_0",
    "white space": " 0000000001 ",
    "bidi": f"{BIDI}-0000000001",
    "combining": "e" + "\u0301" * 1000,
    "no-break and zero-width": "\u00a0\u200b\ufeff",
    "long": "a" * 20_000,
    "long with dashes": "-" * 20_000,
    "long with underscores": "_" * 20_000 + "0",
    "markers": "lock-" * 4000 + "x",
    "reader and writer": "__READ____WRIT____rlock____lock__0000000001",
    "not a GUID": "_c_" + "z" * 32 + "-lock-0000000001",
    "queue priority": "queue-1FFFFFFFF-2147483648",
    "queue priority of letters": "queue-1GGGGGGGG0000000001",
    "queue time greatest": "queue-|FFFFFFFFFFFFF|0000000001",
    "queue time least": "queue-|00000000|0000000001",
    "queue time of 5000 digits": "queue-|" + "F" * 5000 + "|0000000001",
    "queue of arabic digits": f"queue-{ARABIC_DIGITS}",
    "task": "task--999999999",
    "name of a kind": "worker-" + "9" * 5000,
    "name without a number": "worker-",
    "permit": "0000000001-" + "f" * 32,
    "parts of others": "leases",
    "ready": "ready",
    "quota": "zookeeper_limits",
    "percent": "%s%n%(name)s{0}{name!r}",
    "markup": "<script>alert(1)</script>&amp;\"'",
    "slashes backwards": "..\\..\\etc",
}
"""Names that a server of ZooKeeper lets everybody create."""

FORBIDDEN_NAMES: Mapping[str, str] = {
    "controls": f"{CONTROLS}-0000000001",
    "escape": "\x1b[2J0000000001",
    "newline": "lock-0000000001\nlock-0000000002",
    "newline at the end": "lock-0000000001\n",
    "separators": f"{SEPARATORS}-0000000001",
    "private use": "\ue000-0000000001",
    "emoji": "\U0001f600-0000000001",
    "specials": "\ufff0\uffff",
    "empty": "",
    "dot": ".",
    "dots": "..",
}
"""Names that only another server than ZooKeeper's would send. `separators` has U+0085 in it."""

NAME_CASES: Mapping[str, str] = {
    **ALLOWED_NAMES,
    **{f"forbidden {k}": v for k, v in FORBIDDEN_NAMES.items()},
}
"""The fixed worst cases of a znode's name. None has a slash, which separates names."""

# --- strategies ----------------------------------------------------------------------------------


def _json_texts() -> st.SearchStrategy[str]:
    """Values in JSON, or nearly: hostile ones, and trees of them."""
    return st.recursive(
        st.sampled_from(sorted(JSON_VALUES.values(), key=len))
        | st.integers(-(10**400), 10**400).map(str)
        | st.floats().map(json.dumps)
        | st.text(st.characters()).map(json.dumps),
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda texts: "[" + ",".join(texts) + "]")
            | st.dictionaries(st.text(max_size=5), inner, max_size=3).map(
                lambda texts: json_object({}, texts).decode()
            )
        ),
        max_leaves=5,
    )


@st.composite
def _json_objects(draw: st.DrawFn) -> bytes:
    """An object of a known format with wrong, missing and additional values."""
    valid = JSON_FORMATS[draw(st.sampled_from(sorted(JSON_FORMATS)))]
    left = draw(st.sets(st.sampled_from(sorted(valid)), max_size=2))
    changed = draw(
        st.dictionaries(
            st.sampled_from(sorted(valid)) | st.text(max_size=5), _json_texts(), max_size=3
        )
    )
    end = draw(st.sampled_from([b"", b"\n", b"\n\xff", b"}", b"\x00"]))
    rest = {key: value for key, value in valid.items() if key not in left}
    return json_object(rest, changed) + end


def hostile_data() -> st.SearchStrategy[bytes | None]:
    """The data of a znode that a hostile client has written; None for null."""
    return (
        st.sampled_from(list(DATA_CASES.values()))
        | st.binary(max_size=300)
        | st.text(max_size=100).map(str.encode)
        | st.integers(-(10**400), 10**400).map(lambda number: str(number).encode())
        | st.integers(1, 5000).map(lambda digits: b"1" * digits)
        | _json_texts().map(str.encode)
        | _json_objects()
        | _lines()
    )


def _lines() -> st.SearchStrategy[bytes]:
    """Lines like those of servers: words, separators and numbers, in any order."""
    parts = st.sampled_from(
        [
            *("server.", "version", "count", "bytes", "zk_", "Zookeeper version: ", "Mode: "),
            *("=", ":", ";", ",", "|", "/", ".", "[", "]", '"', "\\", "-", "0x", " ", "\t", "\n"),
            *("1", "-1", "9" * 20, "9" * 5000, "f" * 17, "NaN", ARABIC_DIGITS, BIDI, CONTROLS),
        ]
    )
    return st.lists(parts, max_size=30).map(lambda texts: "".join(texts).encode())


def _is_one_name(name: str) -> bool:
    return bool(name) and "/" not in name


def hostile_names() -> st.SearchStrategy[str]:
    """A child's name as a server may list it, also one that no server of ZooKeeper would allow."""
    suffixes = st.sampled_from(
        [
            *("", "-", "0000000001", "-0000000001", "2147483647", "-2147483648", "-999999999"),
            *("9999999999", "--1", "1" * 5000, "9" * 20, ARABIC_DIGITS, "\n", "0000000001\n"),
        ]
    )
    heads = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
        [
            *("queue-", "queue-|", "queue-1FFFFFFFF", "task-", "lock-", "latch-", "_c_", "x-"),
            *("__lock__", "__rlock__", "__READ__", "__WRIT__", "n_", "read-", "write-", "worker-"),
            *("a" * 5000, "-" * 5000, "lock-" * 1000, CONTROLS, BIDI, SEPARATORS),
        ]
    )
    built = st.tuples(heads, heads | st.just(""), suffixes).map("".join).filter(_is_one_name)
    return st.sampled_from(list(NAME_CASES.values())) | built
