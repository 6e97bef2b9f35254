"""The table of differences between versions of ZooKeeper."""

from __future__ import annotations

import pytest

from aiolead._wire.codes import OpCode
from aiolead._wire.versions import Feature, Version
from aiolead.testing._server.settings import Settings


@pytest.mark.parametrize("feature", Feature)
def test_releases_of_a_feature_are_one_per_line_oldest_first(feature: Feature) -> None:
    lines = [release[:2] for release in feature.releases]
    assert feature.releases
    assert lines == sorted(set(lines))
    assert feature.since == feature.releases[0]


@pytest.mark.parametrize(
    ("version", "has_it"),
    [
        ((3, 6, 4), False),
        ((3, 8, 3), False),
        ((3, 8, 4), True),
        ((3, 8, 9), True),
        ((3, 9, 0), False),
        ((3, 9, 1), False),
        ((3, 9, 2), True),
        ((3, 10, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_release_of_a_newer_line_may_lack_a_feature_of_an_older_line(
    version: Version, has_it: bool
) -> None:
    assert Feature.EXISTS_NEEDS_READ.releases == ((3, 8, 4), (3, 9, 2))
    assert Feature.EXISTS_NEEDS_READ.is_in(version) is has_it


@pytest.mark.parametrize("version", [(3, 5, 9), (3, 6, 0), (3, 7, 0), (3, 8, 0), (3, 10, 0)])
def test_feature_of_one_release_is_in_all_later_ones(version: Version) -> None:
    assert Feature.WHO_AM_I.is_in(version) is (version >= (3, 7, 0))


def test_embedded_server_has_the_operations_of_its_version() -> None:
    def unknown(version: Version) -> set[OpCode]:
        settings = Settings(version=version)
        return {op for op in OpCode if not settings.knows(op)}

    since_3_6 = {
        OpCode.ADD_WATCH,
        OpCode.SET_WATCHES2,
        OpCode.MULTI_READ,
        OpCode.GET_EPHEMERALS,
        OpCode.GET_ALL_CHILDREN_NUMBER,
    }
    assert unknown((3, 8, 0)) == set()
    assert unknown((3, 6, 0)) == {OpCode.WHO_AM_I}
    assert unknown((3, 5, 9)) == {OpCode.WHO_AM_I} | since_3_6
    assert unknown((3, 5, 2)) == {OpCode.WHO_AM_I, OpCode.CREATE_TTL} | since_3_6
