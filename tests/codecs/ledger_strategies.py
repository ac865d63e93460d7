"""Hypothesis strategies: ledger metadata of every shape, as messages, and damaged bytes."""

from __future__ import annotations

from hypothesis import strategies as st

from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
members = st.one_of(
    st.sampled_from(["bk1:3181", "bk2:3181", "10.0.0.1:3181", "readonly", "a b", "[::1]:3181", 'q"}\n{']),
    st.text(max_size=12),
)
segments = st.builds(
    LedgerMetadataFormat.Segment,
    ensembleMember=st.lists(members, max_size=4),
    firstEntryId=st.one_of(st.integers(0, 5), int64s),
)
custom = st.builds(
    LedgerMetadataFormat.cMetadataMapEntry,
    key=st.one_of(st.none(), st.text(max_size=8)),
    value=st.one_of(st.none(), st.binary(max_size=12)),
)
messages = st.builds(
    LedgerMetadataFormat,
    quorumSize=st.one_of(st.integers(0, 4), int32s),
    ensembleSize=st.one_of(st.integers(0, 4), int32s),
    length=int64s,
    lastEntryId=st.one_of(st.none(), int64s),
    state=st.sampled_from([1, 2, 3]),
    segment=st.lists(segments, max_size=4),
    digestType=st.one_of(st.none(), st.sampled_from([1, 2, 3, 4])),
    password=st.one_of(st.none(), st.binary(max_size=16)),
    ackQuorumSize=st.one_of(st.none(), st.integers(0, 4), int32s),
    ctime=st.one_of(st.none(), int64s),
    customMetadata=st.lists(custom, max_size=3),
    cToken=st.one_of(st.none(), int64s),
)
"""Complete, and apart from that of any content, sound or not."""


@st.composite
def mutations(draw: st.DrawFn, golden: bytes) -> bytes:
    """Draw golden bytes that are cut, have a flipped bit, or have a piece replaced or inserted."""
    start = draw(st.integers(0, max(0, len(golden) - 1)))
    kind = draw(st.sampled_from(["cut", "flip", "replace", "insert"]))
    if kind == "cut":
        return golden[:start]
    if kind == "flip" and golden:
        return golden[:start] + bytes([golden[start] ^ 1 << draw(st.integers(0, 7))]) + golden[start + 1 :]
    end = draw(st.integers(start, len(golden))) if kind == "replace" else start
    pieces = st.one_of(
        st.binary(max_size=8),
        st.sampled_from([b"\xff" * 10, b"9" * 30, b"{", b'"', b"\\u", b"\t", b"\n", b"[", b"<", b"-", b"#"]),
    )
    return golden[:start] + draw(pieces) + golden[end:]
