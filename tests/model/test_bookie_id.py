"""Ids as Java takes them, as the proposal has them, and as addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.model.bookie_id import is_accepted, legacy_address, portable
from tests.codecs.metadata_vectors import Vector, vectors


@pytest.mark.parametrize("vector", vectors("bookieIds"), ids=lambda vector: repr(vector["id"]))
def test_we_accept_what_java_accepts(vector: Vector) -> None:
    assert is_accepted(vector["id"]) == vector["valid"]


@given(st.text(max_size=8))
def test_a_portable_id_is_an_accepted_one(id: str) -> None:
    assert is_accepted(id) or not portable(id)


@pytest.mark.parametrize("id", ["bk-a.rack1", "10.0.0.1:3181", "BK_9"])
def test_ids_of_real_clusters_are_portable(id: str) -> None:
    assert portable(id)


@pytest.mark.parametrize("id", ["[::1]:3181", "a;b", "a<b", "user@host", "a\\b", "readonly", ""])
def test_what_only_the_server_takes_is_not_portable(id: str) -> None:
    assert not portable(id)


@pytest.mark.parametrize("vector", vectors("socketAddresses"), ids=lambda vector: repr(vector["text"]))
def test_an_id_is_an_address_where_java_says_so(vector: Vector) -> None:
    address = (vector["host"], vector["port"]) if "host" in vector else None
    assert legacy_address(vector["text"]) == address


def test_a_port_of_many_digits_is_none() -> None:
    assert legacy_address("h:" + "9" * 1_000_000) is None
    assert legacy_address("h:2147483648") is None
