"""Fixtures of many tests of the simulation."""

from __future__ import annotations

import pytest
from assurance.simulation.ensemble_model import Client, Stage, started


@pytest.fixture
def stage() -> Stage:
    """An ensemble of three of the model that serves."""
    return started()


@pytest.fixture
def client(stage: Stage) -> Client:
    """A client with a session at a follower."""
    return stage.client(stage.follower)
