"""Whatever the short way takes, it reads as the parser for everything does."""

from __future__ import annotations

from google.protobuf import text_format
from hypothesis import given

from auditor.codecs import canonical_text, proto_text
from auditor.codecs.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from tests.codecs.ledger_strategies import messages
from tests.codecs.metadata_vectors import bytes_of, vectors
from tests.codecs.test_ledger_metadata import V2_OPEN


def test_what_servers_wrote_takes_the_short_way() -> None:
    written = [bytes_of(vector) for vector in vectors("metadata") if vector["version"] == 2]
    taken = [value for value in written if canonical_text.fields(value, 30)]
    # The rest has numbers of 19 digits, which the short way leaves to the long one.
    assert len(taken) > 0.9 * len(written)
    assert canonical_text.fields(V2_OPEN, 30)


@given(messages)
def test_the_short_way_reads_what_the_long_one_reads(message: LedgerMetadataFormat) -> None:
    written = text_format.MessageToString(message).encode()
    fields = canonical_text.fields(written, 0)
    if fields is not None:
        read = proto_text.parse(LedgerMetadataFormat, written, "metadata")
        assert fields.firsts == [segment.firstEntryId for segment in read.segment]
        assert fields.ensembles == [list(segment.ensembleMember) for segment in read.segment]
        assert fields.custom_metadata == {entry.key: entry.value for entry in read.customMetadata}
        assert fields.has_password == read.HasField("password")
        assert fields.last_entry_id == read.lastEntryId
        assert fields.ctime == (read.ctime if read.HasField("ctime") else None)


def test_an_empty_segment_is_no_trouble() -> None:
    text = b"quorumSize: 1\nensembleSize: 1\nlength: 0\nstate: OPEN\nsegment {\n  firstEntryId: 7\n}\n"
    fields = canonical_text.fields(text, 0)
    assert fields is not None
    assert (fields.firsts, fields.ensembles) == ([7], [[]])
