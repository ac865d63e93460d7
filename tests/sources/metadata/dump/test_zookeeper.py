"""Dumps of ZooKeeper: the rows of a real cluster's metadata, and the effects of damage."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.errors import StoreError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.dump.records import LINE_LIMIT
from auditor.sources.metadata.dump.store import decode_key_line, decode_znode_line
from auditor.sources.metadata.store import OWNER_UNKNOWN, MetadataStore, Tree, ZnodeBatch
from auditor.sources.metadata.stores import open_store
from tests.examples import examples

DATA = Path(__file__).parents[3] / "data"
CORPORA = ("interleaved-hier", "flat-v1", "dbledger-long")


def dump_of(corpus: str, tmp_path: Path) -> Path:
    file = tmp_path / "metadata.jsonl"
    file.write_bytes(gzip.decompress((DATA / corpus / "metadata.jsonl.gz").read_bytes()))
    return file


def batches(store: MetadataStore, tree: Tree, part_count: int) -> list[ZnodeBatch]:
    parts = store.parts(tree, LayoutKind.HIERARCHICAL, part_count)
    return [batch for part in parts for batch in store.read(part)]


def line(path: str, **changes: Any) -> bytes:
    record = {"path": path, "data": "", "czxid": 1, "mzxid": 1, "ctime": 5, "mtime": 5, "version": 0}
    return json.dumps(record | {"ephemeralOwner": 0} | changes).encode() + b"\n"


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("part_count", [1, 7, 1000])
def test_every_znode_of_a_real_dump_is_read_once(corpus: str, part_count: int, tmp_path: Path) -> None:
    file = dump_of(corpus, tmp_path)
    expected = {record["path"]: record for record in map(json.loads, file.read_text().splitlines())}
    store = open_store(f"dump://{file}")
    read: dict[str, tuple[Any, ...]] = {}
    for tree in (Tree.LEDGERS, Tree.MARKS):
        for batch in batches(store, tree, part_count):
            assert not batch.gaps
            for row in zip(
                batch.paths, batch.data, batch.mzxid, batch.ctime, batch.mtime, batch.version, strict=True
            ):
                assert row[0] not in read
                read[row[0]] = row
    cluster = store.cluster()
    assert not set(read) & {f"/ledgers/{below}" for below in cluster.nodes}
    read |= {z.path: (z.path, z.data, z.mzxid, z.ctime, z.mtime, z.version) for z in cluster.nodes.values()}
    assert read == {
        path: (path, base64.b64decode(r["data"]), r["mzxid"], r["ctime"], r["mtime"], r["version"])
        for path, r in expected.items()
        if path != "/ledgers"
    }
    assert cluster.scan_time == max(max(r["ctime"], r["mtime"]) for r in expected.values())
    assert cluster.nodes["LAYOUT"].data.startswith(b"2\n")


def test_znodes_outside_the_root_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "dump"
    file.write_bytes(line("/bk") + line("/bk/00", mtime=7) + line("/bk2/00") + line("/zookeeper", ctime=99))
    store = open_store(f"dump://{file}?root=/bk")
    assert [batch.paths for batch in batches(store, Tree.LEDGERS, 1)] == [["/bk/00"]]
    assert store.cluster().scan_time == 7


@pytest.mark.parametrize(
    ("damaged", "path"),
    [
        pytest.param(b"{not json\n", "/ledgers", id="not JSON"),
        pytest.param(b"[" * 100_000 + b"\n", "/ledgers", id="JSON too deep"),
        pytest.param(b"\xff\xfe\n", "/ledgers", id="no text"),
        pytest.param(b"[1]\n", "/ledgers", id="no object"),
        pytest.param(b'{"data": ""}\n', "/ledgers", id="no path"),
        pytest.param(line("/ledgers/00/0000/L0001", data="%%%"), "/ledgers/00/0000/L0001", id="no base64"),
        pytest.param(line("/ledgers/00/0000/L0001", data=None), "/ledgers/00/0000/L0001", id="no data"),
        pytest.param(line("/ledgers/00/0000/L0001", mtime="x"), "/ledgers/00/0000/L0001", id="no number"),
        pytest.param(
            line("/ledgers/00/0000/L0001", mtime=2**63), "/ledgers/00/0000/L0001", id="beyond int64"
        ),
        pytest.param(line("/ledgers/00/0000/L0001", version=True), "/ledgers/00/0000/L0001", id="a boolean"),
        pytest.param(b"x" * (LINE_LIMIT + 5) + b"\n", "/ledgers", id="too long"),
        pytest.param(b"x" * (LINE_LIMIT - 1) + b"\n", "/ledgers", id="just not too long"),
    ],
)
def test_a_damaged_line_is_a_gap_and_its_neighbours_are_read(
    damaged: bytes, path: str, tmp_path: Path
) -> None:
    file = tmp_path / "dump"
    before = line("/ledgers") + line("/ledgers/00")
    file.write_bytes(before + damaged + line("/ledgers/01"))
    (batch,) = batches(open_store(f"dump://{file}"), Tree.LEDGERS, 1)
    assert batch.paths == ["/ledgers/00", "/ledgers/01"]
    ((where, reason),) = batch.gaps
    assert where == path
    assert f"at byte {len(before)}:" in reason


def test_damage_without_a_path_is_reported_by_every_tree(tmp_path: Path) -> None:
    file = tmp_path / "dump"
    file.write_bytes(line("/ledgers") + b"?\n" + line("/ledgers/cookies/a", data="?"))
    store = open_store(f"dump://{file}")
    assert [len(batch.gaps) for tree in (Tree.LEDGERS, Tree.MARKS) for batch in batches(store, tree, 1)] == [
        1,
        1,
    ]
    assert [gap[0] for gap in store.cluster().gaps] == ["/ledgers", "/ledgers/cookies/a"]


def test_a_dump_that_mixes_two_stores_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "dump"
    of_etcd = (
        b'{"path":"/ledgers/x","key":"L2xlZGdlcnMveA==","data":"",'
        b'"createRevision":2,"modRevision":2,"lease":0}\n'
    )
    for mixed in (line("/ledgers") + of_etcd, b"damaged\n" + of_etcd + line("/ledgers")):
        file.write_bytes(mixed)
        store = open_store(f"dump://{file}")
        with pytest.raises(StoreError, match="mixes two stores"):
            store.cluster()
        with pytest.raises(StoreError, match="mixes two stores"):
            batches(store, Tree.LEDGERS, 1)


def test_missing_file_and_missing_root_are_store_errors(tmp_path: Path) -> None:
    store = open_store(f"dump://{tmp_path}/none")
    with pytest.raises(StoreError, match="none"):
        store.cluster()
    with pytest.raises(StoreError, match="none"):
        store.parts(Tree.LEDGERS, LayoutKind.FLAT, 2)
    (tmp_path / "dump").write_bytes(line("/other"))
    with pytest.raises(StoreError, match="root"):
        open_store(f"dump://{tmp_path}/dump").cluster()


@settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.data())
def test_changed_byte_affects_at_most_its_own_line(tmp_path: Path, data: st.DataObject) -> None:
    lines = [line("/ledgers")] + [line(f"/ledgers/{n:02}") for n in range(20)]
    hit = data.draw(st.integers(0, 20))
    good = bytearray(b"".join(lines))
    offset = sum(map(len, lines[:hit])) + data.draw(st.integers(0, len(lines[hit]) - 2))
    # A newline would make two lines of one; any other byte damages this line only, or changes a value.
    good[offset] = data.draw(st.integers(0, 255).filter(lambda byte: byte != 10))
    (tmp_path / "dump").write_bytes(bytes(good))
    store = open_store(f"dump://{tmp_path}/dump")
    read = batches(store, Tree.LEDGERS, data.draw(st.integers(1, 9)))
    whole = {f"/ledgers/{n:02}" for n in range(20)} - {f"/ledgers/{hit - 1:02}"}
    assert whole <= {path for batch in read for path in batch.paths}


def test_owner_is_unknown_if_a_dump_record_omits_it() -> None:
    record = json.loads(line("/ledgers/available/bk1:3181", ephemeralOwner=7))
    assert decode_znode_line(json.dumps(record).encode()).ephemeral_owner == 7
    del record["ephemeralOwner"]
    assert decode_znode_line(json.dumps(record).encode()).ephemeral_owner == OWNER_UNKNOWN
    key = {"path": "/a", "key": "L2E=", "data": "", "createRevision": 1, "modRevision": 2, "version": 2}
    assert decode_key_line(json.dumps(key).encode()).ephemeral_owner == OWNER_UNKNOWN
    assert decode_key_line(json.dumps(key | {"lease": 0}).encode()).ephemeral_owner == 0
