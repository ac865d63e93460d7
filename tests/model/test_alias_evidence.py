"""Comparison of host names without DNS."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.model.alias_evidence import (
    MAX_NAME_CHARACTERS,
    is_ip,
    is_shared_host,
    normalise_host,
    shorter_names,
)

HOSTS = st.text("ab1.-", max_size=12)


@pytest.mark.parametrize("host", ["10.0.0.1", "256.1.2.3", "10", "::1", "fe80::1", "1.2.3"])
def test_ip_address_is_no_host_name(host: str) -> None:
    assert is_ip(host)
    assert not list(shorter_names(host))


@pytest.mark.parametrize("host", ["localhost", "LocalHost.", "127.0.0.1", "0.0.0.0", "::", ""])
def test_local_host_name_is_shared(host: str) -> None:
    assert is_shared_host(host)


@pytest.mark.parametrize("host", ["127.0.103.1", "localhost1", "bk.localhost.example", "10.0.0.1"])
def test_other_host_is_not_shared(host: str) -> None:
    assert not is_shared_host(host)


def test_shorter_names_end_at_dots() -> None:
    assert list(shorter_names("a.b.c")) == ["a", "a.b"]
    assert list(shorter_names("a")) == []
    assert list(shorter_names(".a")) == []
    assert list(shorter_names("a." * MAX_NAME_CHARACTERS)) == []


@given(HOSTS)
def test_host_normalisation_is_idempotent_and_ignores_case(host: str) -> None:
    assert normalise_host(normalise_host(host).upper()) == normalise_host(normalise_host(host))


@given(HOSTS)
def test_shorter_names_are_the_first_labels_of_a_host(host: str) -> None:
    assert all(host.startswith(f"{name}.") for name in shorter_names(host))
