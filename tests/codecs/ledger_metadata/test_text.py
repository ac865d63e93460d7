"""Format 1 line by line, and the ways to write format 2."""

from __future__ import annotations

import pytest

from auditor.codecs.ledger_metadata.one import MAGIC, decode
from auditor.errors import DecodeError, RuleError
from auditor.model.ledger_metadata import LedgerState

V1 = MAGIC + b"1\n2\n2\n10\n0\ta:1\tb:2\n"
V2 = (
    MAGIC + b'2\nquorumSize: 2\nensembleSize: 2\nlength: 10\nsegment {\n  ensembleMember: "a:1"\n'
    b'  ensembleMember: "b:2"\n  firstEntryId: 0\n}\n'
)


def test_a_ledger_without_a_last_line_is_open() -> None:
    metadata = decode(V1)
    assert (metadata.state, metadata.length, metadata.last_entry_id) == (LedgerState.OPEN, 0, -1)


def test_last_entry_minus_102_means_in_recovery() -> None:
    assert decode(V1 + b"-102\tCLOSED").state is LedgerState.IN_RECOVERY


def test_an_empty_ledger_is_closed_at_minus_one() -> None:
    metadata = decode(V1 + b"-1\tCLOSED")
    assert (metadata.state, metadata.length, metadata.last_entry_id) == (LedgerState.CLOSED, 10, -1)


@pytest.mark.parametrize("after", [b"\n", b"\r\n", b"\n9\tc:1\td:2\n", b"\tand more"])
def test_text_after_closed_is_ignored(after: bytes) -> None:
    assert decode(V1 + b"4\tCLOSED" + after).last_entry_id == 4


def test_store_ctime_is_not_used_for_format_1() -> None:
    assert decode(V1, store_ctime=7).ctime is None
    assert decode(V2 + b"state: OPEN", store_ctime=7).ctime == 7


def test_digest_needs_a_password_and_defaults_to_crc32() -> None:
    assert decode(V2 + b"state: OPEN digestType: HMAC").digest_type is None
    assert decode(V2 + b'state: OPEN password: ""').digest_type == "CRC32"


def test_closed_without_a_last_entry_is_closed_at_0() -> None:
    assert decode(V2 + b"state: CLOSED").last_entry_id == 0


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        pytest.param(MAGIC + b"1\n", 30, id="nothing"),
        pytest.param(MAGIC + b"1\n2\n2\n", 34, id="no length"),
        pytest.param(MAGIC + b"1\n2 \n2\n0\n", 30, id="a blank after a number"),
        pytest.param(MAGIC + b"1\n2147483648\n2\n0\n", 30, id="33 bits"),
        pytest.param(V1 + b"\n", 47, id="a blank line"),
        pytest.param(V1 + b"5 a:1 b:2\n", 47, id="no tab"),
        pytest.param(V1 + b"five\ta:1\tb:2\n", 47, id="a first entry that is not a number"),
        pytest.param(V1 + b"\tCLOSED", 47, id="no last entry"),
        pytest.param(V2, len(V2), id="no state"),
        pytest.param(V2 + b"state: SHUT", len(V2) + 7, id="no such state"),
        pytest.param(V2 + b"state: OPEN\ncolour: 3", len(V2) + 12, id="an unknown field"),
    ],
)
def test_text_damage_is_refused_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        decode(damaged)
    assert damage.value.offset == offset


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        pytest.param(MAGIC + b"1\n3\n2\n0\n0\ta:1\tb:2\n", "quorum-invalid", id="quorum"),
        pytest.param(V1 + b"5\ta:1\n", "ensemble-size", id="too few bookies"),
        pytest.param(V1 + b"0\ta:1\tc:1\n", "segment-order", id="the same first entry"),
        pytest.param(V1 + b"5\ta:1\tb 2\n", "bookie-id-invalid", id="bookie id"),
        pytest.param(MAGIC + b"1\n1\n1\n0\n", "no-segment", id="no segment"),
    ],
)
def test_broken_rule_error_has_its_name_and_the_values(data: bytes, rule: str) -> None:
    with pytest.raises(RuleError) as refused:
        decode(data)
    assert refused.value.rule == rule
    assert refused.value.value.format_version == 1
