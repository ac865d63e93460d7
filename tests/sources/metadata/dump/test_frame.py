"""How a dump says that it is whole, and what is made of one that does not, cut wherever it may be."""

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


def frame_line(**said: Any) -> bytes:
    return json.dumps(said).encode() + b"\n"


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


def framed(lines: list[bytes]) -> list[bytes]:
    return [frame_line(begin={}), *lines, frame_line(end={"nodes": len(lines)})]


@pytest.fixture
def cluster(tmp_path: Path) -> Callable[[list[bytes]], ClusterNodes]:
    def read(lines: list[bytes]) -> ClusterNodes:
        (tmp_path / "dump").write_bytes(b"".join(lines))
        return open_store(f"dump://{tmp_path}/dump").cluster()

    return read


Read = Callable[[list[bytes]], ClusterNodes]


@pytest.mark.parametrize("lines", [ZOOKEEPER, ETCD], ids=["zookeeper", "etcd"])
def test_a_dump_with_its_last_line_proves_what_is_not_there(lines: list[bytes], cluster: Read) -> None:
    whole = cluster(framed(lines))
    assert (whole.proves_absence, whole.cut, whole.gaps) == (True, None, ())
    without_begin = cluster([*lines, frame_line(end={"nodes": len(lines)}), b"\n"])
    assert (without_begin.proves_absence, without_begin.cut, without_begin.gaps) == (True, None, ())
    # Nothing of a bookie is there, and that is so.
    none = cluster(framed(lines[:1]))
    assert (none.proves_absence, none.cut, none.gaps) == (True, None, ())


@pytest.mark.parametrize("lines", [ZOOKEEPER, ETCD], ids=["zookeeper", "etcd"])
def test_wherever_it_is_cut_a_dump_with_a_first_line_says_so(lines: list[bytes], cluster: Read) -> None:
    text = framed(lines)
    for length in range(2, len(text)):
        cut = cluster(text[:length])
        ((path, reason),) = cut.gaps
        assert path == "/ledgers"
        assert 'the "begin" line announces an "end" line, which is missing' in reason
        assert not cut.proves_absence
    inside = cluster([*text[:-1], text[-1][:-5]])  # in its last line
    assert {path for path, _ in inside.gaps} == {"/ledgers"}


def test_a_dump_of_zookeeper_that_is_cut_before_the_bookies_end_may_lack_anything(cluster: Read) -> None:
    ends = {length: cluster(ZOOKEEPER[:length]).cut for length in range(1, len(ZOOKEEPER))}
    for length in range(1, 9):
        assert "it may be cut off" in str(ends[length]), length
    for length in (9, 10, 11):
        assert 'has no "end" line that confirms its end' in str(ends[length]), length
    assert ends[5] == "the dump has no available and no cookies; it may be cut off"
    assert cluster([*ZOOKEEPER[:4], *ZOOKEEPER[5:]]).cut == "the dump has no LAYOUT; it may be cut off"
    whole = cluster(ZOOKEEPER)
    assert (whole.cut, whole.gaps, whole.proves_absence) == (None, (), False)


def test_a_dump_of_etcd_that_is_cut_anywhere_may_lack_anything(cluster: Read) -> None:
    for length in range(1, len(ETCD)):
        assert cluster(ETCD[:length]).cut is not None
    assert (cluster(ETCD).cut, cluster(ETCD).proves_absence) == (None, False)


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
def test_a_frame_that_does_not_fit_is_damage_at_its_offset(
    lines: list[bytes], reason: str, cluster: Read
) -> None:
    found = cluster(lines)
    assert found.gaps
    for path, said in found.gaps:
        offset = int(said.removeprefix("line at byte ").partition(":")[0])
        assert path == "/ledgers"
        assert any(b"".join(lines[:number]) == b"".join(lines)[:offset] for number in range(len(lines)))
    assert reason in str(found.gaps)
    assert found.proves_absence is ("not JSON" in reason)  # a line that cannot be read is a gap of its own


@pytest.mark.parametrize("wanted", [1, 3, 50])
def test_first_and_last_lines_are_no_gaps_for_who_reads_a_part(wanted: int, tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(b"".join(framed(ZOOKEEPER)))
    store = open_store(f"dump://{tmp_path}/dump")
    read = [b for part in store.parts(Tree.LEDGERS, LayoutKind.FLAT, wanted) for b in store.read(part)]
    assert [path for batch in read for path in batch.paths] == [
        "/ledgers/00",
        "/ledgers/00/0000/L0001",
        "/ledgers/00/0000/L0002",
    ]
    assert not any(batch.gaps for batch in read)


@given(st.lists(st.sampled_from(["begin", "record", "end"]), max_size=8), st.integers(0, 6))
def test_only_one_shape_is_complete(shape: list[str], promised: int) -> None:
    frame = BeginEndChecker()
    for offset, each in enumerate(shape):
        if each == "record":
            frame.count_record(offset)
        else:
            frame.check_line(offset, {each: {"nodes": promised}})
    frame.check_end(len(shape))
    records = [each for each in shape if each == "record"]
    shapes = ([*records, "end"], ["begin", *records, "end"])
    assert frame.is_complete is (shape in shapes and promised == len(records))
