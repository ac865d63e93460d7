"""The begin and end lines of a dump, and dumps without them, cut at any position."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.dump.records import BeginEndChecker
from auditor.sources.metadata.store import ClusterNodes, Tree
from auditor.sources.metadata.stores import open_store

UUID = "00000000-0000-0000-0000-00000000000"


def znode(path: str) -> bytes:
    numbers = dict.fromkeys(("czxid", "mzxid", "ctime", "mtime", "version", "ephemeralOwner"), 5)
    return json.dumps({"path": path, "data": "", **numbers}).encode() + b"\n"


def key(path: str) -> bytes:
    numbers = dict.fromkeys(("createRevision", "modRevision", "version", "lease"), 5)
    record = {"path": path, "key": base64.b64encode(path.encode()).decode(), "data": "", **numbers}
    return json.dumps(record).encode() + b"\n"


def frame_line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


ZOOKEEPER = [
    znode(f"/ledgers{path}")
    for path in ("", "/00", "/00/0000/L0001", "/00/0000/L0002", "/LAYOUT", "/available", "/available/a:1",
                 "/available/readonly", "/cookies", "/cookies/a:1", "/cookies/b:1", "/idgen",
                 "/underreplication", "/underreplication/ledgers", "/underreplication/locks")
]  # fmt: skip
ETCD = [
    key(f"/ledgers{path}")
    for path in ("", "/bookies", "/bookies/writable", "/bookies/writable/a:1", "/cookies", "/cookies/a:1",
                 "/instanceid", "/layout", "/ledgers", f"/ledgers/{UUID}1", f"/ledgers/{UUID}2",
                 "/underreplication")
]  # fmt: skip


def add_frame(lines: list[bytes]) -> list[bytes]:
    return [frame_line(begin={}), *lines, frame_line(end={"nodes": len(lines)})]


@pytest.fixture
def cluster(tmp_path: Path) -> Callable[[list[bytes]], ClusterNodes]:
    def read(lines: list[bytes]) -> ClusterNodes:
        (tmp_path / "dump").write_bytes(b"".join(lines))
        return open_store(f"dump://{tmp_path}/dump").cluster()

    return read


Read = Callable[[list[bytes]], ClusterNodes]


@pytest.mark.parametrize("lines", [ZOOKEEPER, ETCD], ids=["zookeeper", "etcd"])
def test_dump_with_an_end_line_proves_absence(lines: list[bytes], cluster: Read) -> None:
    whole = cluster(add_frame(lines))
    assert (whole.proves_absence, whole.damage, whole.gaps) == (True, None, ())
    without_begin = cluster([*lines, frame_line(end={"nodes": len(lines)}), b"\n"])
    assert (without_begin.proves_absence, without_begin.damage, without_begin.gaps) == (True, None, ())
    # Nothing of a bookie is there, and that is so.
    root_only = cluster(add_frame(lines[:1]))
    assert (root_only.proves_absence, root_only.damage, root_only.gaps) == (True, None, ())


@pytest.mark.parametrize("lines", [ZOOKEEPER, ETCD], ids=["zookeeper", "etcd"])
def test_dump_with_a_begin_line_and_no_end_line_is_reported_as_cut(lines: list[bytes], cluster: Read) -> None:
    text = add_frame(lines)
    for length in range(2, len(text)):
        cut = cluster(text[:length])
        ((path, reason),) = cut.gaps
        assert path == "/ledgers"
        assert 'the "begin" line announces an "end" line, which is missing' in reason
        assert not cut.proves_absence
    inside = cluster([*text[:-1], text[-1][:-5]])  # in its last line
    assert {path for path, _ in inside.gaps} == {"/ledgers"}


def test_zookeeper_dump_without_its_last_nodes_may_be_cut_off(cluster: Read) -> None:
    ends = {length: cluster(ZOOKEEPER[:length]).damage for length in range(1, len(ZOOKEEPER))}
    for length in range(1, 9):
        assert "it may be cut off" in str(ends[length]), length
    for length in (9, 10, 11):
        assert 'has no "end" line that confirms its end' in str(ends[length]), length
    assert ends[5] == "the dump has no available and no cookies; it may be cut off"
    assert cluster([*ZOOKEEPER[:4], *ZOOKEEPER[5:]]).damage == "the dump has no LAYOUT; it may be cut off"
    whole = cluster(ZOOKEEPER)
    assert (whole.damage, whole.gaps, whole.proves_absence) == (None, (), False)


def test_etcd_dump_cut_anywhere_may_be_incomplete(cluster: Read) -> None:
    for length in range(1, len(ETCD)):
        assert cluster(ETCD[:length]).damage is not None
    assert (cluster(ETCD).damage, cluster(ETCD).proves_absence) == (None, False)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([*ZOOKEEPER[:-1], frame_line(end={"nodes": 15})], "counts 15 records, but 14 are present"),
        (
            [*ZOOKEEPER, ZOOKEEPER[2], frame_line(end={"nodes": 15})],
            "counts 15 records, but 16 are present",
        ),
        ([*ZOOKEEPER[:-1], frame_line(end={"nodes": 14}), ZOOKEEPER[-1]], 'after the "end" line'),
        ([*ZOOKEEPER, frame_line(end={"nodes": 15}), frame_line(end={"nodes": 15})], 'a second "end" line'),
        ([*ZOOKEEPER, frame_line(end={"nodes": "15"})], 'an "end" line without a number of nodes'),
        ([*ZOOKEEPER, frame_line(end=15)], 'an "end" line without a number of nodes'),
        ([*ZOOKEEPER, frame_line(end={"nodes": True})], 'an "end" line without a number of nodes'),
        (
            [*ZOOKEEPER, frame_line(begin={}), frame_line(end={"nodes": 15})],
            'a "begin" line that is not the first line',
        ),
        ([*ZOOKEEPER[:-1], b"?\n", frame_line(end={"nodes": 15})], "not JSON"),
    ],
)
def test_frame_error_is_a_gap_at_its_offset(lines: list[bytes], reason: str, cluster: Read) -> None:
    cluster_nodes = cluster(lines)
    assert cluster_nodes.gaps
    for path, gap_reason in cluster_nodes.gaps:
        offset = int(gap_reason.removeprefix("line at byte ").partition(":")[0])
        assert path == "/ledgers"
        assert any(b"".join(lines[:number]) == b"".join(lines)[:offset] for number in range(len(lines)))
    assert reason in str(cluster_nodes.gaps)
    assert cluster_nodes.proves_absence is (
        "not JSON" in reason
    )  # a line that cannot be read is a gap of its own


@pytest.mark.parametrize("part_count", [1, 3, 50])
def test_begin_and_end_lines_are_not_gaps_in_any_part(part_count: int, tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(b"".join(add_frame(ZOOKEEPER)))
    store = open_store(f"dump://{tmp_path}/dump")
    read = [b for part in store.parts(Tree.LEDGERS, LayoutKind.FLAT, part_count) for b in store.read(part)]
    assert [path for batch in read for path in batch.paths] == [
        "/ledgers/00",
        "/ledgers/00/0000/L0001",
        "/ledgers/00/0000/L0002",
    ]
    assert not any(batch.gaps for batch in read)


@given(st.lists(st.sampled_from(["begin", "record", "end"]), max_size=8), st.integers(0, 6))
def test_frame_is_complete_only_with_a_correct_count_in_its_end_line(shape: list[str], promised: int) -> None:
    frame = BeginEndChecker()
    for offset, line_kind in enumerate(shape):
        if line_kind == "record":
            frame.count_record(offset)
        else:
            frame.check_line(offset, {line_kind: {"nodes": promised}})
    frame.check_end(len(shape))
    records = [line_kind for line_kind in shape if line_kind == "record"]
    shapes = ([*records, "end"], ["begin", *records, "end"])
    assert frame.is_complete is (shape in shapes and promised == len(records))
