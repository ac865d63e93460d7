"""Names of hosts, compared without DNS."""

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
def test_numbers_are_no_names(host: str) -> None:
    assert is_ip(host)
    assert not list(shorter_names(host))


@pytest.mark.parametrize("host", ["localhost", "LocalHost.", "127.0.0.1", "0.0.0.0", "::", ""])
def test_some_names_mean_another_machine_to_everyone(host: str) -> None:
    assert is_shared_host(host)


@pytest.mark.parametrize("host", ["127.0.103.1", "localhost1", "bk.localhost.example", "10.0.0.1"])
def test_others_do_not(host: str) -> None:
    assert not is_shared_host(host)


def test_a_name_is_shortened_at_its_dots() -> None:
    assert list(shorter_names("a.b.c")) == ["a", "a.b"]
    assert list(shorter_names("a")) == []
    assert list(shorter_names(".a")) == []
    assert list(shorter_names("a." * MAX_NAME_CHARACTERS)) == []


@given(HOSTS)
def test_a_name_is_the_same_as_itself(host: str) -> None:
    assert normalise_host(normalise_host(host).upper()) == normalise_host(normalise_host(host))


@given(HOSTS)
def test_shorter_names_are_its_first_labels(host: str) -> None:
    assert all(host.startswith(f"{name}.") for name in shorter_names(host))
