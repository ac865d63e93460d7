"""Bookie ids as Java accepts them, as the proposal defines them, and as addresses."""

from __future__ import annotations

import pytest

from auditor.model.bookie_id import is_accepted, legacy_address
from tests.codecs.metadata_vectors import Vector, vectors


@pytest.mark.parametrize("vector", vectors("bookieIds"), ids=lambda vector: repr(vector["id"]))
def test_bookie_ids_are_accepted_as_in_java(vector: Vector) -> None:
    assert is_accepted(vector["id"]) == vector["valid"]


@pytest.mark.parametrize("vector", vectors("socketAddresses"), ids=lambda vector: repr(vector["text"]))
def test_id_is_a_legacy_address_if_java_parses_one(vector: Vector) -> None:
    address = (vector["host"], vector["port"]) if "host" in vector else None
    assert legacy_address(vector["text"]) == address


def test_port_above_the_int_range_is_no_address() -> None:
    assert legacy_address("h:" + "9" * 1_000_000) is None
    assert legacy_address("h:2147483648") is None
