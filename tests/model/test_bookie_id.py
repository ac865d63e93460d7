"""Ids as Java takes them, as the proposal has them, and as addresses."""

from __future__ import annotations

import pytest

from auditor.model.bookie_id import is_accepted, legacy_address
from tests.codecs.metadata_vectors import Vector, vectors


@pytest.mark.parametrize("vector", vectors("bookieIds"), ids=lambda vector: repr(vector["id"]))
def test_we_accept_what_java_accepts(vector: Vector) -> None:
    assert is_accepted(vector["id"]) == vector["valid"]


@pytest.mark.parametrize("vector", vectors("socketAddresses"), ids=lambda vector: repr(vector["text"]))
def test_an_id_is_an_address_where_java_says_so(vector: Vector) -> None:
    address = (vector["host"], vector["port"]) if "host" in vector else None
    assert legacy_address(vector["text"]) == address


def test_a_port_of_many_digits_is_none() -> None:
    assert legacy_address("h:" + "9" * 1_000_000) is None
    assert legacy_address("h:2147483648") is None
