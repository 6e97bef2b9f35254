"""Planted bugs for tests of what should see them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from .catalogue import by_name
from .model import StaleMutantError
from .plant import mutated


def mutated_or_skip(name: str) -> Mapping[str, str]:
    """The files that a bug changes, with their new text.

    A bug that cannot be planted any more skips the test: the weekly job reports it.
    """
    try:
        return mutated(by_name(name))
    except StaleMutantError as error:
        pytest.skip(f"{name} cannot be planted any more: {error}")
