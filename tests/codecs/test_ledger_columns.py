"""A batch says of every row what reading that row alone says."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.ledger_columns import LedgerColumns, decode_batch
from auditor.codecs.ledger_metadata import MAGIC, parse
from auditor.codecs.ledger_wire import read_sound
from auditor.codecs.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.errors import DecodeError
from auditor.model.ledger_metadata import LedgerMetadata, LedgerState, Segment, broken_rules
from tests.codecs.ledger_strategies import messages, mutations
from tests.codecs.metadata_vectors import Vector, bytes_of, corpus_ledgers, described, expected, vectors
from tests.codecs.test_ledger_metadata import V1_CLOSED, V2_OPEN, V3_CLOSED, V3_IN_RECOVERY, V3_OPEN, v3

Row = LedgerMetadata | tuple[str, int]


def rows(columns: LedgerColumns) -> list[Row]:
    """The batch put together again, row by row: metadata, or why there is none. A batch has no ctoken."""
    found: list[Row] = []
    segments = list(pairwise(accumulate(columns.segment_counts, initial=0)))
    members = list(pairwise(accumulate(columns.member_counts, initial=0)))
    customs = list(pairwise(accumulate(columns.custom_counts, initial=0)))
    for row, damage in enumerate(columns.damage):
        if damage is not None:
            assert (columns.format[row], columns.state[row], columns.ctime[row]) == (None, None, None)
            assert columns.segment_counts[row] == columns.custom_counts[row] == 0
            assert columns.rules[row] == ()
            found.append(damage)
            continue
        custom = slice(*customs[row])
        metadata = LedgerMetadata(
            format_version=columns.format[row] or 0,
            ensemble_size=columns.ensemble_size[row] or 0,
            write_quorum=columns.write_quorum[row] or 0,
            ack_quorum=columns.ack_quorum[row] or 0,
            state=LedgerState(columns.state[row] or ""),
            length=columns.length[row] or 0,
            last_entry_id=columns.last_entry_id[row] or 0,
            segments=tuple(
                Segment(columns.segment_firsts[at], tuple(columns.members[slice(*members[at])]))
                for at in range(*segments[row])
            ),
            digest_type=columns.digest_type[row],
            ctime=columns.ctime[row],
            custom_metadata=dict(
                zip(columns.custom_keys[custom], columns.custom_values[custom], strict=True)
            ),
            has_password=columns.has_password[row],
        )
        assert columns.rules[row] == broken_rules(metadata)
        found.append(metadata)
    return found


def alone(value: bytes) -> Row:
    try:
        read = parse(value)
    except DecodeError as damage:
        return damage.reason, damage.offset
    return LedgerMetadata(
        read.format_version,
        read.ensemble_size,
        read.write_quorum,
        read.ack_quorum,
        read.state,
        read.length,
        read.last_entry_id,
        read.segments,
        read.digest_type,
        read.ctime,
        custom_metadata=read.custom_metadata,
        has_password=read.has_password,
    )


def v2(message: LedgerMetadataFormat) -> bytes:
    return MAGIC + b"2\n" + text_format.MessageToString(message).encode()


def test_one_batch_reads_all_that_java_reads() -> None:
    given_ = [*vectors("metadata"), *vectors("metadataCorrupt")]
    read = rows(decode_batch([bytes_of(vector) for vector in given_]))
    for vector, row in zip(given_, read, strict=True):
        if "decoded" in vector:
            assert isinstance(row, LedgerMetadata)
            assert without_store(described(row)) == without_store(expected(vector["decoded"]))
        else:
            assert isinstance(row, tuple) or any(rule.refused for rule in broken_rules(row))


def without_store(decoded: Vector) -> Vector:
    """A batch knows neither the ctoken nor the store's ctime; the latter is another column of the znode."""
    return {key: value for key, value in decoded.items() if key not in ("cToken", "ctime")}


@pytest.mark.parametrize("corpus", ["interleaved-hier", "flat-v1"])
def test_a_real_cluster_is_one_batch(corpus: str) -> None:
    ledgers = corpus_ledgers(corpus)
    columns = decode_batch([data for _, data, _, _ in ledgers])
    assert columns.rules == [()] * len(ledgers)
    for row, (*_, decoded) in zip(rows(columns), ledgers, strict=True):
        assert isinstance(row, LedgerMetadata)
        assert without_store(described(row)) == without_store(expected(decoded))


@st.composite
def sound_messages(draw: st.DrawFn) -> LedgerMetadataFormat:
    """Ledgers as clusters have them: nothing is broken."""
    ensemble = draw(st.integers(1, 4))
    write = draw(st.integers(1, ensemble))
    bookies = st.permutations([f"bk{n}:3181" for n in range(6)]).map(lambda ids: ids[:ensemble])
    firsts = sorted(draw(st.sets(st.integers(1, 2**40), max_size=3)))
    keys = draw(st.sets(st.text(max_size=6), max_size=3))
    return LedgerMetadataFormat(
        quorumSize=write,
        ensembleSize=ensemble,
        ackQuorumSize=draw(st.one_of(st.none(), st.integers(1, write))),
        length=draw(st.integers(0, 2**60)),
        state=draw(st.sampled_from(LedgerMetadataFormat.State.keys())),
        lastEntryId=draw(st.one_of(st.none(), st.integers(-1, 2**60))),
        digestType=draw(st.sampled_from([None, *LedgerMetadataFormat.DigestType.keys()])),
        password=draw(st.one_of(st.none(), st.binary(max_size=16))),
        ctime=draw(st.one_of(st.none(), st.integers(0, 2**45))),
        segment=[
            LedgerMetadataFormat.Segment(firstEntryId=first, ensembleMember=draw(bookies))
            for first in (0, *firsts)
        ],
        customMetadata=[
            LedgerMetadataFormat.cMetadataMapEntry(key=key, value=draw(st.binary(max_size=5)))
            for key in sorted(keys)
        ],
    )


@given(
    st.lists(st.one_of(sound_messages().map(v3), sound_messages().map(v2), st.binary(max_size=9)), max_size=9)
)
def test_sound_ledgers_are_read_together_and_say_what_they_say_alone(batch: list[bytes]) -> None:
    together = [value for value in batch if value.startswith(MAGIC + b"3")]
    assert read_sound(together).sound.all()
    assert rows(decode_batch(batch)) == [alone(value) for value in batch]


@pytest.mark.parametrize("corpus", ["interleaved-hier", "flat-v1"])
def test_what_real_clusters_write_in_binary_is_read_together(corpus: str) -> None:
    values = [data for _, data, _, _ in corpus_ledgers(corpus)]
    binary = [value.startswith(MAGIC + b"3\n") for value in values]
    assert read_sound(values).sound.tolist() == binary


values = st.one_of(
    sound_messages().map(v3),
    sound_messages().map(v3).flatmap(mutations),
    messages.map(v3),
    messages.map(v2),
    st.sampled_from([V1_CLOSED, V2_OPEN, V3_OPEN, V3_CLOSED, V3_IN_RECOVERY]).flatmap(
        lambda golden: st.one_of(st.just(golden), mutations(golden))
    ),
    st.binary(max_size=40),
)


@given(st.lists(values, max_size=6))
def test_a_row_among_others_says_what_it_says_alone(batch: list[bytes]) -> None:
    assert rows(decode_batch(batch)) == [alone(value) for value in batch]


def test_strings_that_are_no_utf_8_are_read_as_the_server_reads_them() -> None:
    bad = bytes.fromhex("330a 10 0801 1001 1800 2801 3206 0a02ff41 1000")
    columns = decode_batch([MAGIC + bad])
    assert columns.members == ["\ufffdA"]
    assert [rule.rule for rule in columns.rules[0]] == ["bookie-id-invalid"]


@given(st.sampled_from([V2_OPEN, V3_OPEN]), st.integers(1, 100))
def test_one_bad_row_leaves_the_others_alone(golden: bytes, cut: int) -> None:
    columns = decode_batch([golden, golden[:-cut], golden])
    assert columns.state[0] == columns.state[2] == "OPEN"
    assert columns.members[:3] == columns.members[-3:]
