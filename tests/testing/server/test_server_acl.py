from __future__ import annotations

import pytest

from aiolead.errors import InvalidACLError, NoAuthError
from aiolead.model import ACL, OPEN_ACL_UNSAFE, Auth, Permission
from aiolead.testing._server import acl as acls

ANN = Auth.digest("ann", "secret")
ANN_ID = ("digest", ANN.acl().id)
READ = Permission.READ


def test_digest_identity() -> None:
    assert acls.authenticate(ANN.scheme, ANN.credential, "1.2.3.4") == [ANN_ID]


@pytest.mark.parametrize("scheme", ["world", "auth", "sasl", "x509", "super", ""])
def test_other_schemes_prove_nothing(scheme: str) -> None:
    assert acls.authenticate(scheme, b"ann:secret", "1.2.3.4") == []


def test_address_identity() -> None:
    assert acls.authenticate("ip", b"", "1.2.3.4") == [("ip", "1.2.3.4")]


@pytest.mark.parametrize(
    ("entry", "identity", "is_allowed"),
    [
        (("world", "anyone"), ("ip", "1.2.3.4"), True),
        (("ip", "1.2.3.4"), ("ip", "1.2.3.4"), True),
        (("ip", "1.2.3.4"), ("ip", "1.2.3.5"), False),
        (("ip", "1.2.0.0/16"), ("ip", "1.2.3.4"), True),
        (("ip", "1.2.9.9/16"), ("ip", "1.2.3.4"), True),
        (("ip", "1.3.0.0/16"), ("ip", "1.2.3.4"), False),
        (("ip", "0.0.0.0/0"), ("ip", "1.2.3.4"), True),
        (("ip", "1.2.3.4"), ("ip", "::1"), False),
        (("ip", "1.2.3.4"), ("digest", "1.2.3.4"), False),
        (ANN_ID, ANN_ID, True),
        (ANN_ID, ("digest", "ann:other"), False),
    ],
)
def test_identities_that_an_entry_allows(
    entry: tuple[str, str], identity: tuple[str, str], is_allowed: bool
) -> None:
    entries = (ACL(READ, *entry),)
    if is_allowed:
        acls.check(entries, READ, [identity], "/a")
    else:
        with pytest.raises(NoAuthError):
            acls.check(entries, READ, [identity], "/a")
    with pytest.raises(NoAuthError):
        acls.check(entries, Permission.WRITE, [identity], "/a")


def test_empty_acl_allows_everything() -> None:
    acls.check((), Permission.ADMIN, [], "/a")


def test_auth_entries_are_expanded() -> None:
    other = ACL(READ, "ip", "1.2.3.4/8")
    entries = (*OPEN_ACL_UNSAFE, other, other, ACL(READ, "auth", "whatever"))
    assert acls.expand(entries, [("ip", "1.2.3.4"), ANN_ID], "/a") == (
        *OPEN_ACL_UNSAFE,
        other,
        ACL(READ, *ANN_ID),
    )


@pytest.mark.parametrize(
    "entry",
    [
        ("world", "somebody"), ("auth", ""), ("digest", "user"), ("digest", "user:"),
        ("digest", "a:b:c"), ("ip", "1.2.3"), ("ip", "1.2.3.4/33"), ("ip", "1.2.3.4/"),
        ("ip", "::1"), ("ip", ""), ("super", ""), ("", ""),
    ],
)  # fmt: skip
def test_invalid_entries_are_refused(entry: tuple[str, str]) -> None:
    with pytest.raises(InvalidACLError):
        acls.expand((*OPEN_ACL_UNSAFE, ACL(READ, *entry)), [("ip", "1.2.3.4")], "/a")


def test_empty_acl_is_refused() -> None:
    with pytest.raises(InvalidACLError):
        acls.expand((), [], "/a")


def test_only_digests_are_masked() -> None:
    entries = (ACL(READ, "digest", "ann:hash"), ACL(READ, "ip", "1.2.3.4"))
    assert acls.masked(entries) == (ACL(READ, "digest", "ann:x"), entries[1])
