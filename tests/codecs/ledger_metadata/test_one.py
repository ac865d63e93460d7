"""Golden bytes of 4.17.2 servers; values that Java reads, refuses and repairs; damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.ledger_metadata.one import MAGIC, decode, parse
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.wire import MAX_MESSAGE_BYTES
from auditor.errors import DecodeError, RuleError
from auditor.model.ledger_metadata import LedgerMetadata, LedgerState, Segment
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import messages, mutations
from tests.codecs.metadata_vectors import Vector, bytes_of, corpus_ledgers, described, expected, vectors

BOOKIES = ("127.0.0.1:3181", "127.0.0.1:3182", "bk-3.example:3183")
V3_OPEN = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a"
    "58 0802 1003 1800 20ffffffffffffffffff01 2801"
    "3235 0a0e3132372e302e302e313a33313831 0a0e3132372e302e302e313a33313832"
    "0a11626b2d332e6578616d706c653a33313833 1000 3803 4206707722c3a90a 4802 6000"
)
V3_CLOSED = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a8e010802100318e8072009280332350a0e"
    "3132372e302e302e313a333138310a0e3132372e302e302e313a333138320a11626b2d332e6578616d706c653a3331"
    "3833100032350a0e3132372e302e302e313a333138310a0e3132372e302e302e313a333138340a11626b2d332e6578"
    "616d706c653a333138331005380242067365637265744802508080babbc82e6000"
)
V3_IN_RECOVERY = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a820108021003180020ffffffffffffffff"
    "ff01280232350a0e3132372e302e302e313a333138310a0e3132372e302e302e313a333138320a11626b2d332e6578"
    "616d706c653a3331383310003801420673656372657448025a150a0b6170706c69636174696f6e120670756c736172"
    "5a090a026b3212030001ff60ef9bafcdf8acd19101"
)
V2_OPEN = MAGIC + (
    b"2\nquorumSize: 2\nensembleSize: 3\nlength: 0\nlastEntryId: -1\nstate: OPEN\nsegment {\n"
    b'  ensembleMember: "127.0.0.1:3181"\n  ensembleMember: "127.0.0.1:3182"\n'
    b'  ensembleMember: "bk-3.example:3183"\n  firstEntryId: 0\n}\ndigestType: CRC32C\n'
    b'password: "pw\\"\\303\\251\\n"\nackQuorumSize: 2\n'
)
V1_CLOSED = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09310a320a330a313030300a30093132372e302e"
    "302e313a33313831093132372e302e302e313a3331383209626b2d332e6578616d706c653a333138330a3509313237"
    "2e302e302e313a33313831093132372e302e302e313a3331383409626b2d332e6578616d706c653a333138330a3909"
    "434c4f534544"
)
TWO_SEGMENTS = (Segment(0, BOOKIES), Segment(5, ("127.0.0.1:3181", "127.0.0.1:3184", "bk-3.example:3183")))
ONE_SEGMENT = (Segment(0, BOOKIES),)
OPEN = LedgerMetadata(
    3, 3, 2, 2, LedgerState.OPEN, segments=ONE_SEGMENT, digest_type="CRC32C", has_password=True
)
GOLDEN = {
    "format 3, open": (V3_OPEN, OPEN),
    "format 3, closed": (
        V3_CLOSED,
        LedgerMetadata(
            3, 3, 2, 2, LedgerState.CLOSED, 1000, 9, TWO_SEGMENTS, "MAC", 1600000000000, has_password=True
        ),
    ),
    "format 3, in recovery": (
        V3_IN_RECOVERY,
        LedgerMetadata(
            3,
            3,
            2,
            2,
            LedgerState.IN_RECOVERY,
            segments=ONE_SEGMENT,
            digest_type="CRC32",
            ctoken=0x0123456789ABCDEF,
            custom_metadata={"application": b"pulsar", "k2": b"\x00\x01\xff"},
            has_password=True,
        ),
    ),
    "format 1, closed": (V1_CLOSED, LedgerMetadata(1, 3, 2, 2, LedgerState.CLOSED, 1000, 9, TWO_SEGMENTS)),
}


@pytest.mark.parametrize(("golden", "metadata"), GOLDEN.values(), ids=GOLDEN.keys())
def test_metadata_written_by_a_server_is_decoded(golden: bytes, metadata: LedgerMetadata) -> None:
    assert decode(golden) == metadata


def test_text_and_binary_formats_decode_to_the_same_metadata() -> None:
    assert len(V2_OPEN) == 299
    assert described(decode(V2_OPEN)) == described(OPEN) | {"metadataFormatVersion": 2}


@pytest.mark.parametrize("vector", vectors("metadata"), ids=lambda v: f"{v['version']}-{v['ledgerId']}")
def test_metadata_is_decoded_as_java_decodes_it(vector: Vector) -> None:
    metadata = decode(bytes_of(vector), vector["metadataStoreCtime"])
    assert described(metadata) == expected(vector["decoded"])


@pytest.mark.parametrize("vector", vectors("metadataCorrupt"), ids=lambda v: f"{v['kind']}-{v['ledgerId']}")
def test_corrupt_metadata_is_refused_or_repaired_as_java_does(vector: Vector) -> None:
    if "decoded" in vector:
        assert described(decode(bytes_of(vector))) == expected(vector["decoded"])
        return
    with pytest.raises((DecodeError, RuleError)) as refused:
        decode(bytes_of(vector))
    # Java builds what it has read with checks that throw IllegalArgumentException: our rules.
    assert isinstance(refused.value, RuleError) == (vector["error"] == "java.lang.IllegalArgumentException")


@pytest.mark.parametrize(("corpus", "ledgers"), [("interleaved-hier", 70), ("flat-v1", 54)])
def test_every_ledger_of_a_real_cluster_is_decoded_as_java_decodes_it(corpus: str, ledgers: int) -> None:
    corpus_rows = corpus_ledgers(corpus)
    assert len(corpus_rows) == ledgers
    for rel, data, ctime, decoded in corpus_rows:
        assert described(decode(data, ctime)) == expected(decoded), rel


def v3(message: LedgerMetadataFormat) -> bytes:
    body = message.SerializePartialToString()
    size, prefix = len(body), b""
    while size >= 0x80:
        prefix += bytes([size & 0x7F | 0x80])
        size >>= 7
    return MAGIC + b"3\n" + prefix + bytes([size]) + body


@given(messages, st.one_of(st.none(), st.integers(0, 2**62)))
def test_message_fields_are_kept_in_the_metadata(
    message: LedgerMetadataFormat, store_ctime: int | None
) -> None:
    metadata = parse(v3(message), store_ctime)
    closed = message.state == LedgerMetadataFormat.CLOSED
    assert metadata.write_quorum == message.quorumSize
    assert metadata.length == (message.length if closed else 0)
    assert metadata.last_entry_id == (message.lastEntryId if closed else -1)
    assert metadata.ctime == (message.ctime if message.HasField("ctime") else store_ctime)
    assert [list(segment.ensemble) for segment in metadata.segments] == [
        list(segment.ensembleMember) for segment in message.segment
    ]


@given(messages.filter(lambda message: message.segment))
def test_refused_ledger_error_carries_the_parsed_values(message: LedgerMetadataFormat) -> None:
    refused = refusal(decode, v3(message))
    assert refused is None or (isinstance(refused, RuleError) and refused.value == parse(v3(message)))


def test_bytes_after_the_message_are_ignored() -> None:
    assert decode(V3_OPEN + b"and more") == OPEN


@pytest.mark.parametrize("version", [b"03", b"+3", b"000000003"])
def test_version_with_a_plus_sign_or_leading_zeros_is_accepted(version: bytes) -> None:
    assert decode(MAGIC + version + V3_OPEN[29:]) == OPEN


@given(st.sampled_from([V3_OPEN, V3_CLOSED, V3_IN_RECOVERY]), st.data())
def test_truncated_message_is_refused_at_an_offset_inside_it(golden: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(golden) - 1))
    with pytest.raises(DecodeError) as damage:
        decode(golden[:cut])
    assert 0 <= damage.value.offset <= cut


@given(
    st.one_of(
        st.binary(max_size=64),
        st.binary(max_size=64).map(lambda tail: MAGIC + tail),
        st.sampled_from([V1_CLOSED, V2_OPEN, V3_OPEN, V3_CLOSED, V3_IN_RECOVERY]).flatmap(mutations),
    )
)
def test_damaged_metadata_raises_only_typed_errors(damaged: bytes) -> None:
    assert points_within(refusal(decode, damaged), damaged)


SEGMENT_CUT = MAGIC + bytes.fromhex("330a 0e 0802 1003 1800 2801 3204 0a0e3132")


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b"BookieMetadataformatVersion\t3\n", 14, id="another header"),
        pytest.param(b"BookieMeta", 10, id="half a header"),
        pytest.param(MAGIC + b"3", 28, id="no newline"),
        pytest.param(MAGIC + b"1234567890\n", 28, id="ten digits"),
        pytest.param(MAGIC + b"4\n", 28, id="a newer version"),
        pytest.param(MAGIC + b"3\n", 30, id="no size"),
        pytest.param(MAGIC + b"3\n" + b"\xff" * 30, 30, id="a size without end"),
        pytest.param(MAGIC + b"3\n\x05\x08\x01", 33, id="a size beyond the end"),
        pytest.param(MAGIC + b"3\n\x00", 31, id="an empty message"),
        pytest.param(MAGIC + b"3\n\x04\x08\x01\x0f\x00", 33, id="a field that is none"),
        pytest.param(SEGMENT_CUT, 41, id="a member beyond its segment"),
        pytest.param(MAGIC + b"3\n\x64" + b"\x0b" * 100, 131, id="groups in groups"),
    ],
)
def test_metadata_damage_is_refused_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        decode(damaged)
    assert damage.value.offset == offset


def test_message_above_the_size_limit_is_refused() -> None:
    size = MAX_MESSAGE_BYTES + 1
    prefix = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80, size >> 21])
    with pytest.raises(DecodeError) as damage:
        decode(MAGIC + b"3\n" + prefix + bytes(size))
    assert damage.value.offset == 34 + MAX_MESSAGE_BYTES


@pytest.mark.parametrize("version", [b"1", b"2"])
def test_hundred_megabytes_of_digits_are_refused(version: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(MAGIC + version + b"\n" + b"1" * 100_000_000)
