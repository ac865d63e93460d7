"""BP-35: the entry header in both versions, and its readers."""

from __future__ import annotations

import io
import struct

import pytest

from auditor.cli.decoders import decode_journal
from auditor.codecs.bookie.entry import decode_header, digest_matches
from auditor.codecs.bookie.entry_log_records import EntryLogRecords
from auditor.codecs.bookie.journal import Journal
from auditor.errors import DecodeError
from auditor.model.ledger_id import LedgerId
from tests.codecs.entry_logs import header as log_header
from tests.codecs.entry_logs import record as log_record
from tests.codecs.entry_logs import scoped
from tests.codecs.journals import header as journal_header
from tests.codecs.journals import record
from tests.specification.sentences import sentence

VERSION_1 = struct.pack(">qqqq", 7, 3, 2, 40)
CRC32C, VERSION_2_FLAGS = 3, 0xA3


def version_2(scope: int = 1, flags: int = VERSION_2_FLAGS) -> bytes:
    return struct.pack(">Bqqqqq", flags, scope, 7, 3, 2, 40)


def journal_of(*records: bytes) -> bytes:
    return journal_header() + b"".join(records)


def frame_entry(entry: bytes) -> bytes:
    return struct.pack(">i", len(entry)) + entry


@sentence("35-30")
def test_version_1_header_has_ledger_entry_last_add_confirmed_and_length() -> None:
    header = decode_header(VERSION_1)
    assert (header.version, header.ledger, header.entry_id) == (1, LedgerId(7), 3)
    assert (header.last_add_confirmed, header.length) == (2, 40)


@sentence("35-31")
def test_digest_of_version_1_starts_at_byte_32_before_payload() -> None:
    entry = bytes.fromhex("00" * 16 + "ff" * 8 + "00" * 7 + "07" + "2e233f22") + b"entry-0"
    assert decode_header(entry).header_bytes == 32
    assert digest_matches(entry, 32, "CRC32C") is True


@sentence("35-32")
def test_negative_ledger_id_of_version_1_is_rejected() -> None:
    assert decode_header(struct.pack(">qqqq", 2**63 - 1, 3, 2, 40)).version == 1
    with pytest.raises(DecodeError):
        decode_header(struct.pack(">qqqq", -1, 3, 2, 40).ljust(41, b"\0"))


@sentence("35-33")
def test_version_2_header_has_flags_scope_and_the_fields_of_version_1() -> None:
    header = decode_header(version_2(scope=-9))
    assert (header.version, header.ledger, header.entry_id) == (2, LedgerId(7, scope=-9), 3)
    assert (header.last_add_confirmed, header.length) == (2, 40)


@sentence("35-34")
def test_digest_of_version_2_starts_after_header() -> None:
    assert decode_header(version_2()).header_bytes == len(version_2()) == 41


@sentence("35-35")
def test_the_low_bits_of_the_flags_are_the_digest_type() -> None:
    types = [decode_header(version_2(flags=0xA0 | number)).digest_type for number in (1, 2, 3, 4)]
    assert types == ["CRC32", "MAC", "CRC32C", "DUMMY"]


@sentence("35-36")
def test_the_first_byte_of_version_2_is_negative() -> None:
    assert version_2()[0] >= 0x80
    assert decode_header(version_2()).version == 2
    assert decode_header(b"\x7f" + VERSION_1[1:]).version == 1


@sentence("35-37")
def test_version_is_read_from_first_byte() -> None:
    with pytest.raises(DecodeError, match="version 5"):
        decode_header(version_2(flags=0xD3))


@sentence("35-38")
def test_decoder_distinguishes_versions_by_first_byte() -> None:
    assert [decode_header(entry).version for entry in (VERSION_1, version_2())] == [1, 2]


@sentence("35-39")
def test_the_journal_takes_the_scope_from_the_entry() -> None:
    data = journal_of(frame_entry(version_2(scope=5)))
    [records] = Journal.open(lambda offset, length: data[offset : offset + length], len(data)).records()
    assert [records.scope_ids.tolist(), records.ledger_ids.tolist()] == [[5], [7]]


@sentence("35-40")
def test_the_entry_log_takes_the_scope_from_the_entry() -> None:
    data = log_header() + scoped(5, 7, 3)
    [entry_batch] = EntryLogRecords(
        lambda offset, length: data[offset : offset + length], len(data)
    ).entries()
    assert [entry_batch.scope_ids.tolist(), entry_batch.ledger_ids.tolist()] == [[5], [7]]


@sentence("35-41")
def test_the_scope_is_part_of_the_key_of_unflushed_entries() -> None:
    entries = [struct.pack(">Bqqqqq", VERSION_2_FLAGS, scope, 7, scope, 2, 40) for scope in (1, 2)]
    shown = decode_journal(io.BytesIO(journal_of(record(7, 0), *map(frame_entry, entries))), entries=True)
    entries_by_ledger = {(row["scope_id"], row["ledger_id"]): row["entries"] for row in shown["largest"]}
    assert entries_by_ledger == {("0", "7"): [0], ("1", "7"): [1], ("2", "7"): [2]}


@sentence("35-42")
def test_version_2_takes_nine_bytes_more_on_the_wire() -> None:
    assert decode_header(version_2()).header_bytes - decode_header(VERSION_1).header_bytes == 9


@sentence("35-43")
def test_version_2_takes_nine_bytes_more_in_the_journal() -> None:
    data = journal_of(frame_entry(VERSION_1), frame_entry(version_2()), frame_entry(VERSION_1))
    [records] = Journal.open(lambda offset, length: data[offset : offset + length], len(data)).records()
    first, second, third = records.offsets.tolist()
    assert (third - second) - (second - first) == 9


@sentence("35-44")
def test_version_2_takes_nine_bytes_more_in_the_entry_log() -> None:
    data = log_header() + log_record(7, 3, 16) + scoped(5, 7, 3)
    [entry_batch] = EntryLogRecords(
        lambda offset, length: data[offset : offset + length], len(data)
    ).entries()
    plain, with_scope = entry_batch.sizes.tolist()
    assert with_scope - plain == 9
