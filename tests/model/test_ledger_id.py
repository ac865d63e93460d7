"""Qualified ledger names: both halves, either sign, every spelling."""

from __future__ import annotations

import uuid
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import UsageError
from auditor.model.ledger_id import LedgerId

int64s = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("ledger", "name"),
    [
        (LedgerId(1), "00000000000000000000000000000001"),
        (LedgerId(2, scope=1), "00000000000000010000000000000002"),
        (LedgerId(2**63 - 1), "00000000000000007fffffffffffffff"),
        (LedgerId(-1, scope=-1), "f" * 32),
    ],
)
def test_qualified_name_matches_the_proposal(ledger: LedgerId, name: str) -> None:
    assert ledger.qualified_name == name
    assert LedgerId.parse(name) == ledger


@given(int64s, int64s)
def test_qualified_name_is_read_back_in_every_spelling(id: int, scope: int) -> None:
    ledger = LedgerId(id, scope)
    name = ledger.qualified_name
    for written in (name, name.upper(), f"0x{name}", f"0X{name.upper()}", str(uuid.UUID(hex=name))):
        assert LedgerId.parse(written) == ledger


@pytest.mark.parametrize(
    "name",
    ["", "1", "g" * 32, "0" * 31, "0" * 33, "0" * 32 + "\n", "0-0-0-0-1", "0x", " " + "0" * 32, "٣" * 32],
)
def test_invalid_qualified_name_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError):
        LedgerId.parse(name)


@given(st.text(max_size=50))
def test_arbitrary_text_is_parsed_or_is_a_usage_error(name: str) -> None:
    with suppress(UsageError):
        assert len(LedgerId.parse(name).qualified_name) == 32


@pytest.mark.parametrize("digits", ["99999999999999999999999", "9223372036854775808", "9" * 5_000])
def test_number_above_the_largest_id_is_reported_as_too_large(digits: str) -> None:
    with pytest.raises(UsageError, match=r"is larger than the largest ledger id, 922337203685477580"):
        LedgerId.parse(digits)
    assert LedgerId.parse("9" * 32).scope == LedgerId.parse("9" * 32).id == -0x6666666666666667
