"""DbLedgerStorage files of real 4.17.2 bookies, against the answers of their own Java code."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from auditor.codecs.availability import wire as availability
from auditor.codecs.availability.groups import HEADER_STRUCT
from auditor.sources.bookies.owners import Attribution, attribute_directories
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import plan_parts
from auditor.sources.bookies.places import find_places
from tests.sources.bookie_corpora import DATA, oracle, unpack_bookies

CORPUS = "dbledger-long"
BOOKIE_IDS = {"bk-a.rack1", "bk-b.rack1", "bk-c.rack2", "127.0.103.4:3181"}
NO_LEDGER = -7


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_bookies(CORPUS, tmp_path_factory.mktemp("dbledger"))


@pytest.fixture(scope="module")
def attribution(places: Path) -> Attribution:
    return attribute_directories(
        find_places([str(places)]), BOOKIE_IDS, {}, "06958d23-ab39-4db1-a6d7-f0f3e6c37558"
    )


@pytest.fixture(scope="module")
def rows(attribution: Attribution) -> list[dict[str, Any]]:
    bookies = [(bookie.bookie_id, bookie.index_directories) for bookie in attribution.bookies.values()]
    planned = plan_parts(bookies, 4)
    assert len(planned) == 6  # one per directory
    return [row for part in planned for batch in read_part(part) for row in batch.to_pylist()]


def java_indexes() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        gzip.decompress((DATA / CORPUS / "rocksdb-indexes.json.gz").read_bytes())
    )
    return loaded


def fold_listing(java: dict[str, Any]) -> bytes:
    """Convert the server's unfolded value to our canonical form."""
    data = bytes.fromhex(java["bytes"])
    return availability.encode(availability.decode(data))[HEADER_STRUCT.size :]


def test_rows_equal_the_java_scan_of_each_directory(places: Path, rows: list[dict[str, Any]]) -> None:
    row_count = 0
    for place, directories in java_indexes().items():
        for name, java in directories.items():
            path = str(places / place.replace(":", "_") / name / "locations")
            directory_rows = {str(row["ledger_id"]): row for row in rows if row["path"] == path}
            assert set(directory_rows) == {*java["ledgers"], *java["locations"]}
            for ledger, row in directory_rows.items():
                groups = fold_listing(java["locations"][ledger]) if ledger in java["locations"] else b""
                assert row["groups"] == groups
                assert row["state"] == ("ok" if ledger in java["ledgers"] else "not-indexed")
                assert (row["storage"], row["scope_id"], row["page_bytes"]) == ("rocksdb", 0, None)
            row_count += len(directory_rows)
    assert row_count == len(rows) == 173


def test_rows_equal_the_listings_of_each_bookie(rows: list[dict[str, Any]]) -> None:
    """The listings were made before index ledgers and locations were removed and disks were swapped."""
    rows_by_key = {(str(row["ledger_id"]), row["bookie_id"]): row for row in rows}
    removed = {("10000000009", "bk-a.rack1")}
    for ledger, bookies in oracle(CORPUS)["availability"].items():
        for bookie, answer in bookies.items():
            row = rows_by_key.pop((ledger, bookie), None)
            if answer.get("rc") == NO_LEDGER:
                assert row is None or row["state"] == "not-indexed"
            elif (ledger, bookie) not in removed:
                assert row is not None
                assert row["groups"] == fold_listing(answer)
    assert not [row for row in rows_by_key.values() if row["state"] == "ok" and row["groups"]]


def test_removed_ledgers_and_entries_are_detected(rows: list[dict[str, Any]]) -> None:
    assert {(row["ledger_id"], row["bookie_id"]) for row in rows if row["state"] == "not-indexed"} == {
        (2, "bk-c.rack2"),
        (3, "bk-b.rack1"),
    }
    assert max(row["ledger_id"] for row in rows) > 2**63 - 10_000
    [cut] = [row for row in rows if (row["ledger_id"], row["bookie_id"]) == (10_000_000_009, "bk-a.rack1")]
    groups = HEADER_STRUCT.pack(0, len(cut["groups"]) // 24) + cut["groups"]
    entry_ids = set(availability.expand(availability.decode(groups)).tolist())
    assert not entry_ids & {16, 17, 19}
    assert entry_ids


def test_swapped_disks_are_attributed_to_the_bookies_that_wrote_them(
    attribution: Attribution, places: Path
) -> None:
    assert {row.read for row in attribution.bookies.values()} == {"read"}
    for bookie, other_bookie in (("bk-a.rack1", "bk-b.rack1"), ("bk-b.rack1", "bk-a.rack1")):
        owner = attribution.bookies[bookie]
        assert owner.suspect
        assert [(row.path, row.position, row.directory_count) for row in owner.index_directories] == [
            (str(places / bookie / "ledgers0"), 0, 2),
            (str(places / other_bookie / "ledgers1"), 1, 2),
        ]
    separate = attribution.bookies["bk-c.rack2"]
    assert [row.path for row in separate.index_directories] == [str(places / "bk-c.rack2" / "index0")]
