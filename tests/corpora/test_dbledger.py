"""DbLedgerStorage's indexes, read plainly: equal to a Java scan of the databases; two swapped disks."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import pytest

from tests.corpora.brute_force import World, judge
from tests.corpora.corpora import DATA, Corpus, unpack
from tests.corpora.faults import SWAPPED
from tests.corpora.plain_readers import read_availability, read_indexes, read_rocksdb


@pytest.fixture(scope="module")
def dbledger(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return unpack("dbledger-long", tmp_path_factory.mktemp("corpus") / "dbledger-long")


def test_plain_reader_matches_the_java_scan(dbledger: Corpus) -> None:
    scanned = json.loads(gzip.decompress((DATA / "dbledger-long" / "rocksdb-indexes.json.gz").read_bytes()))
    for bookie, directories in scanned.items():
        for directory, java in directories.items():
            path = dbledger.bookies / bookie.replace(":", "_") / directory
            locations: dict[int, set[int]] = {}
            for key in read_rocksdb(path / "locations"):
                ledger, entry = struct.unpack(">qq", key)
                if ledger >= 0 and entry >= 0:
                    locations.setdefault(ledger, set()).add(entry)
            assert locations == {
                int(ledger): read_availability(bytes.fromhex(value["bytes"]))
                for ledger, value in java["locations"].items()
            }
            listed = {int.from_bytes(key, "big", signed=True) for key in read_rocksdb(path / "ledgers")}
            assert {ledger for ledger in listed if ledger >= 0} == {int(ledger) for ledger in java["ledgers"]}


def test_reading_swapped_disks_by_place_makes_healthy_ledgers_unhealthy(
    dbledger: Corpus, tmp_path: Path
) -> None:
    """The two disks' missing entries are other planted faults; read by place, most data would look lost."""
    world = dbledger.world()
    at_place = unpack("dbledger-long", tmp_path / "at-place")
    for bookie in SWAPPED:
        version = at_place.bookies / bookie / "ledgers1/current/VERSION"
        version.write_text((version.parents[2] / "ledgers0/current/VERSION").read_text())
    misread = World(
        world.ledgers, world.undecodable, read_indexes(at_place.bookies), world.read, world.marks, world.locks
    )
    unhealthy = {ledger for ledger in world.ledgers if judge(world, ledger).unhealthy}
    misjudged = {ledger for ledger in world.ledgers if judge(misread, ledger).unhealthy}
    assert len(misjudged - unhealthy) > 5
