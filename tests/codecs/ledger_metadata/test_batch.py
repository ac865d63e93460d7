"""Batch decoding gives every row the same result as decoding that row alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.byte_column import ByteColumn
from auditor.codecs.ledger_metadata.batch import READER_BY_VERSION, decode_batch, decode_sound_ledgers
from auditor.codecs.ledger_metadata.columns import DIGEST_NAMES, STATE_NAMES, LedgerColumns
from auditor.codecs.ledger_metadata.one import MAGIC, parse
from auditor.codecs.protobuf.fields import MIN_STEP_MESSAGES
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.wire import MAX_MESSAGE_BYTES
from auditor.errors import DecodeError
from auditor.model.ledger_metadata import LedgerMetadata, LedgerState, Segment, broken_rules
from tests.codecs.ledger_metadata.test_one import V1_CLOSED, V2_OPEN, V3_CLOSED, V3_IN_RECOVERY, V3_OPEN, v3
from tests.codecs.ledger_strategies import messages, mutations
from tests.codecs.metadata_vectors import Vector, bytes_of, corpus_ledgers, described, expected, vectors

Row = LedgerMetadata | tuple[str, int]


def rows(columns: LedgerColumns) -> list[Row]:
    """Return the rows of a batch: metadata, or why there is none. A batch has no ctoken."""
    metadata_rows: list[Row] = []
    segments = list(pairwise(accumulate(columns.segment_counts.tolist(), initial=0)))
    members = list(pairwise(accumulate(columns.member_counts.tolist(), initial=0)))
    customs = list(pairwise(accumulate(columns.custom_counts.tolist(), initial=0)))
    firsts = columns.segment_firsts.tolist()
    names = [columns.bookies[member] for member in columns.members.tolist()]
    keys = [columns.key_names[key] for key in columns.custom_keys.tolist()]
    values = columns.custom_values.to_pylist()
    for row in range(len(columns.format)):
        if row in columns.damage:
            assert (columns.format[row], columns.state[row], columns.has_ctime[row]) == (0, 0, False)
            assert columns.segment_counts[row] == columns.custom_counts[row] == 0
            assert row not in columns.rules
            metadata_rows.append(columns.damage[row])
            continue
        custom = slice(*customs[row])
        metadata = LedgerMetadata(
            format_version=int(columns.format[row]),
            ensemble_size=int(columns.ensemble_size[row]),
            write_quorum=int(columns.write_quorum[row]),
            ack_quorum=int(columns.ack_quorum[row]),
            state=LedgerState(STATE_NAMES[columns.state[row]] or ""),
            length=int(columns.length[row]),
            last_entry_id=int(columns.last_entry_id[row]),
            segments=tuple(
                Segment(firsts[index], tuple(names[slice(*members[index])]))
                for index in range(*segments[row])
            ),
            digest_type=DIGEST_NAMES[columns.digest_type[row]],
            ctime=int(columns.ctime[row]) if columns.has_ctime[row] else None,
            custom_metadata=dict(zip(keys[custom], values[custom], strict=True)),
            has_password=bool(columns.has_password[row]),
        )
        assert columns.rules.get(row, ()) == broken_rules(metadata)
        metadata_rows.append(metadata)
    return metadata_rows


def decode_row(value: bytes) -> Row:
    try:
        metadata = parse(value)
    except DecodeError as damage:
        return damage.reason, damage.offset
    return LedgerMetadata(
        metadata.format_version,
        metadata.ensemble_size,
        metadata.write_quorum,
        metadata.ack_quorum,
        metadata.state,
        metadata.length,
        metadata.last_entry_id,
        metadata.segments,
        metadata.digest_type,
        metadata.ctime,
        custom_metadata=metadata.custom_metadata,
        has_password=metadata.has_password,
    )


def v2(message: LedgerMetadataFormat) -> bytes:
    return MAGIC + b"2\n" + text_format.MessageToString(message).encode()


def test_batch_decoding_matches_java() -> None:
    java_vectors = [*vectors("metadata"), *vectors("metadataCorrupt")]
    decoded_rows = rows(decode_batch([bytes_of(vector) for vector in java_vectors]))
    for vector, row in zip(java_vectors, decoded_rows, strict=True):
        if "decoded" in vector:
            assert isinstance(row, LedgerMetadata)
            assert without_store(described(row)) == without_store(expected(vector["decoded"]))
        else:
            assert isinstance(row, tuple) or any(rule.refused for rule in broken_rules(row))


def without_store(decoded: Vector) -> Vector:
    """Remove ctoken and the store's ctime, which a batch lacks; ctime is another column of the znode."""
    return {key: value for key, value in decoded.items() if key not in ("cToken", "ctime")}


@pytest.mark.parametrize("corpus", ["interleaved-hier", "flat-v1"])
def test_real_cluster_is_decoded_as_one_batch(corpus: str) -> None:
    ledgers = corpus_ledgers(corpus)
    columns = decode_batch([data for _, data, _, _ in ledgers])
    assert columns.rules == {}
    for row, (*_, decoded) in zip(rows(columns), ledgers, strict=True):
        assert isinstance(row, LedgerMetadata)
        assert without_store(described(row)) == without_store(expected(decoded))


@st.composite
def sound_messages(draw: st.DrawFn, *, escaped: bool = True) -> LedgerMetadataFormat:
    """Draw a valid ledger as clusters have it; with ``escaped``, custom metadata may need escapes in text."""
    ensemble = draw(st.integers(1, 4))
    write = draw(st.integers(1, ensemble))
    bookies = st.permutations([f"bk{n}:3181" for n in range(6)]).map(lambda ids: ids[:ensemble])
    firsts = sorted(draw(st.sets(st.integers(1, 2**40), max_size=3)))
    plain = st.text(
        st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="\"'\\\\"), max_size=6
    )
    keys = draw(st.sets(st.text(max_size=6) if escaped else plain, max_size=3))
    values = st.binary(max_size=5) if escaped else plain.map(str.encode)
    return LedgerMetadataFormat(
        quorumSize=write,
        ensembleSize=ensemble,
        ackQuorumSize=draw(st.one_of(st.none(), st.integers(1, write))),
        length=draw(st.integers(0, 2**59)),
        state=draw(st.sampled_from(LedgerMetadataFormat.State.keys())),
        lastEntryId=draw(st.one_of(st.none(), st.integers(-1, 2**59))),
        digestType=draw(st.sampled_from([None, *LedgerMetadataFormat.DigestType.keys()])),
        password=draw(st.one_of(st.none(), st.binary(max_size=16))),
        ctime=draw(st.one_of(st.none(), st.integers(0, 2**45))),
        segment=[
            LedgerMetadataFormat.Segment(firstEntryId=first, ensembleMember=draw(bookies))
            for first in (0, *firsts)
        ],
        customMetadata=[
            LedgerMetadataFormat.cMetadataMapEntry(key=key, value=draw(values)) for key in sorted(keys)
        ],
    )


def batch_readable(values: list[bytes], version: int) -> list[bool]:
    """Return which of the values, all of one format, the batch decoder reads."""
    fields = READER_BY_VERSION[version](ByteColumn.from_values(values), len(MAGIC) + 2)
    return [bool(sound) for sound in decode_sound_ledgers(fields)[0]]


@given(
    st.lists(st.one_of(sound_messages().map(v3), sound_messages().map(v2), st.binary(max_size=9)), max_size=9)
)
def test_sound_ledgers_decode_equally_in_a_batch_and_row_by_row(batch: list[bytes]) -> None:
    assert all(batch_readable([value for value in batch if value.startswith(MAGIC + b"3")], 3))
    assert rows(decode_batch(batch)) == [decode_row(value) for value in batch]


@given(st.lists(sound_messages(escaped=False).map(v2), max_size=9))
def test_text_written_by_the_server_is_decoded_in_a_batch(batch: list[bytes]) -> None:
    assert all(batch_readable(batch, 2))


@pytest.mark.parametrize("corpus", ["interleaved-hier", "flat-v1"])
def test_metadata_of_real_clusters_is_decoded_in_a_batch(corpus: str) -> None:
    payloads = [data for _, data, _, _ in corpus_ledgers(corpus)]
    for version in READER_BY_VERSION:
        assert all(
            batch_readable(
                [value for value in payloads if value.startswith(MAGIC + b"%d\n" % version)], version
            )
        )


@st.composite
def lines_out_of_order(draw: st.DrawFn, text: bytes) -> bytes:
    """Draw the same lines with one of them moved, dropped or duplicated."""
    lines = text.splitlines(keepends=True)
    line = draw(st.integers(1, len(lines) - 1))
    moved = lines[line]
    if draw(st.booleans()):
        del lines[line]
    lines.insert(draw(st.integers(1, len(lines))), moved)
    return b"".join(lines[: draw(st.integers(2, len(lines)))])


def v1(message: LedgerMetadataFormat) -> bytes:
    """Return a ledger in format 1, which stores fewer fields."""
    head = [f"{message.quorumSize}", f"{message.ensembleSize}", f"{message.length}"]
    segments = ["\t".join([f"{part.firstEntryId}", *part.ensembleMember]) for part in message.segment]
    ends = {
        LedgerMetadataFormat.OPEN: "",
        LedgerMetadataFormat.IN_RECOVERY: "-102\tCLOSED",
        LedgerMetadataFormat.CLOSED: f"{message.lastEntryId}\tCLOSED",
    }
    return MAGIC + b"1\n" + "\n".join([*head, *segments, ends[message.state]]).encode()


@given(st.lists(sound_messages().map(v1), max_size=9))
def test_lines_written_by_the_server_decode_equally_in_a_batch_and_row_by_row(batch: list[bytes]) -> None:
    assert rows(decode_batch(batch)) == [decode_row(value) for value in batch]


plain_text = sound_messages(escaped=False).map(v2)
plain_lines = sound_messages().map(v1)
values = st.one_of(
    sound_messages().map(v3),
    sound_messages().map(v3).flatmap(mutations),
    plain_text,
    plain_text.flatmap(mutations),
    plain_text.flatmap(lines_out_of_order),
    plain_lines,
    plain_lines.flatmap(mutations),
    plain_lines.flatmap(lines_out_of_order),
    messages.map(v3),
    messages.map(v2),
    st.sampled_from([V1_CLOSED, V2_OPEN, V3_OPEN, V3_CLOSED, V3_IN_RECOVERY]).flatmap(
        lambda golden: st.one_of(st.just(golden), mutations(golden))
    ),
    st.binary(max_size=40),
)


@given(st.lists(values, max_size=6), st.sampled_from([0, MIN_STEP_MESSAGES]))
def test_row_decodes_equally_among_many_rows_and_by_itself(batch: list[bytes], others: int) -> None:
    decoded_rows = rows(decode_batch(batch + [V3_CLOSED] * others))
    assert decoded_rows == [decode_row(value) for value in batch] + [decode_row(V3_CLOSED)] * others


def giant(segments: int) -> LedgerMetadataFormat:
    """Return a ledger whose ensemble changed many times; its numbers are of one byte and of several."""
    return LedgerMetadataFormat(
        quorumSize=2,
        ensembleSize=3,
        ackQuorumSize=2,
        length=9 * segments,
        lastEntryId=segments**2,
        state=LedgerMetadataFormat.CLOSED,
        ctime=1_600_000_000_000,
        segment=[
            LedgerMetadataFormat.Segment(
                firstEntryId=number**2,
                ensembleMember=[
                    f"bk{(number // 3 + seat) % 7}{'x' * (number % 5)}:3181" for seat in range(3)
                ],
            )
            for number in range(segments)
        ],
        customMetadata=[LedgerMetadataFormat.cMetadataMapEntry(key="application", value=b"pulsar")],
    )


@pytest.mark.parametrize("write", [v1, v2, v3])
def test_giant_ledger_is_decoded_in_a_batch(write: Callable[[LedgerMetadataFormat], bytes]) -> None:
    # More than a mebibyte in each format.
    batch = [write(giant(1)), write(giant(28_000)), write(giant(2))]
    version = int(chr(batch[0][len(MAGIC)]))
    assert version not in READER_BY_VERSION or all(batch_readable(batch, version))
    assert rows(decode_batch(batch)) == [decode_row(value) for value in batch]


@given(st.sampled_from([v1, v2, v3]).map(lambda write: write(giant(150))).flatmap(mutations), st.booleans())
def test_damaged_giant_ledger_decodes_equally_in_a_batch_and_by_itself(
    value: bytes, among_many: bool
) -> None:
    neighbours = [V3_CLOSED] * (MIN_STEP_MESSAGES if among_many else 1)
    assert rows(decode_batch([value, *neighbours])) == [decode_row(value), *map(decode_row, neighbours)]


def test_message_beyond_the_size_limit_is_damage_in_a_batch() -> None:
    message = giant(1)
    message.customMetadata[0].value = bytes(MAX_MESSAGE_BYTES)
    batch = [V3_CLOSED, v3(message)]
    assert rows(decode_batch(batch)) == [decode_row(value) for value in batch]


@given(st.lists(st.tuples(st.sampled_from([b"", b"\n", b'"\n\t', b"\x00\x0a}"]), values), max_size=6))
def test_bytes_between_values_in_a_buffer_are_ignored(laid: list[tuple[bytes, bytes]]) -> None:
    octets, starts = b"", []
    for between, value in laid:
        starts.append(len(octets + between))
        octets += between + value
    begins = np.array(starts, np.int64)
    ends = begins + np.array([len(value) for _, value in laid], np.int64)
    column = ByteColumn(np.frombuffer(octets + b'"\n', np.uint8), begins, ends)
    assert rows(decode_batch(column)) == [decode_row(value) for _, value in laid]


def test_invalid_utf_8_strings_are_decoded_as_the_server_does() -> None:
    bad = bytes.fromhex("330a 10 0801 1001 1800 2801 3206 0a02ff41 1000")
    columns = decode_batch([MAGIC + bad])
    assert [columns.bookies[member] for member in columns.members] == ["\ufffdA"]
    assert [rule.rule for rule in columns.rules[0]] == ["bookie-id-invalid"]


@given(st.sampled_from([V2_OPEN, V3_OPEN]), st.integers(1, 100))
def test_damaged_row_does_not_affect_its_neighbours(golden: bytes, cut: int) -> None:
    columns = decode_batch([golden, golden[:-cut], golden])
    first, _, last = rows(columns)
    assert first == last == decode_row(golden)
