"""Packed dumps: they are read and divided into parts as plain dumps are, and their damage is a gap."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.dump.lines import MAX_PACKED_PARTS
from auditor.sources.metadata.store import MetadataStore, Tree
from auditor.sources.metadata.stores import open_store

DATA = Path(__file__).parents[3] / "data"
ROOTS = {"interleaved-hier": "/ledgers", "flat-v1": "/ledgers", "etcd": "/bk/cluster1"}


def compress(kind: str, data: bytes) -> bytes:
    return gzip.compress(data) if kind == "gzip" else pa.Codec("zstd").compress(data, asbytes=True)


def plain(corpus: str) -> bytes:
    return gzip.decompress((DATA / corpus / "metadata.jsonl.gz").read_bytes())


def read_trees(store: MetadataStore, part_count: int) -> dict[Tree, tuple[list[str], list[tuple[str, str]]]]:
    trees = {}
    for tree in (Tree.LEDGERS, Tree.MARKS):
        batches = [b for p in store.parts(tree, LayoutKind.FLAT, part_count) for b in store.read(p)]
        trees[tree] = ([path for b in batches for path in b.paths], [gap for b in batches for gap in b.gaps])
    return trees


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("corpus", ROOTS)
@pytest.mark.parametrize("part_count", [1, 3, 1000])
def test_compressed_dump_equals_the_plain_dump(
    kind: str, corpus: str, part_count: int, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_bytes(plain(corpus))
    (tmp_path / "packed").write_bytes(compress(kind, plain(corpus)))
    plain_store, packed_store = (
        open_store(f"dump://{tmp_path}/{name}?root={ROOTS[corpus]}") for name in ("plain", "packed")
    )
    assert read_trees(plain_store, part_count) == read_trees(packed_store, part_count)
    assert read_trees(packed_store, part_count)[Tree.LEDGERS][0]
    of_one, of_other = plain_store.cluster(), packed_store.cluster()
    assert (of_one.nodes, of_one.position, of_one.gaps) == (of_other.nodes, of_other.position, ())
    assert len(packed_store.parts(Tree.LEDGERS, LayoutKind.FLAT, 1000)) == MAX_PACKED_PARTS


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("part_count", [1, 4])
def test_cut_compressed_dump_is_reported_as_cut(kind: str, part_count: int, tmp_path: Path) -> None:
    whole = plain("interleaved-hier")
    half = len(whole) // 2  # zstd shows nothing of a block that is cut, and a small file is one block
    (tmp_path / "dump").write_bytes(compress(kind, whole[:half]) + compress(kind, whole[half:])[:-2])
    store = open_store(f"dump://{tmp_path}/dump")
    cluster = store.cluster()
    # Both the line that the cut is in, if it is in one, and the place where the stream ends.
    where, reason = cluster.gaps[-1]
    offset = int(reason.removeprefix("line at byte ").partition(":")[0])
    assert where == "/ledgers"
    assert f"the {kind} stream is cut off or damaged" in reason
    assert half <= offset <= len(whole)
    for tree, (_, gaps) in read_trees(store, part_count).items():
        assert gaps, tree
        assert gaps == list(cluster.gaps)


def test_wrong_checksum_is_a_gap_and_all_rows_are_read(tmp_path: Path) -> None:
    damaged = bytearray(compress("gzip", plain("flat-v1")))
    damaged[-6] ^= 1
    (tmp_path / "dump").write_bytes(damaged)
    (tmp_path / "plain").write_bytes(plain("flat-v1"))
    store, whole = (open_store(f"dump://{tmp_path}/{name}") for name in ("dump", "plain"))
    ((where, reason),) = store.cluster().gaps
    assert (where, f"byte {len(plain('flat-v1'))}:" in reason) == ("/ledgers", True)
    for tree, (paths, gaps) in read_trees(whole, 3).items():
        assert (paths, [*gaps, (where, reason)]) == read_trees(store, 3)[tree]
