"""DbLedgerStorage as real 4.17.2 bookies left it, against what their own Java code said of it."""

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
KNOWN = {"bk-a.rack1", "bk-b.rack1", "bk-c.rack2", "127.0.103.4:3181"}
NO_LEDGER = -7


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_bookies(CORPUS, tmp_path_factory.mktemp("dbledger"))


@pytest.fixture(scope="module")
def attribution(places: Path) -> Attribution:
    return attribute_directories(
        find_places([str(places)]), KNOWN, {}, "06958d23-ab39-4db1-a6d7-f0f3e6c37558"
    )


@pytest.fixture(scope="module")
def rows(attribution: Attribution) -> list[dict[str, Any]]:
    bookies = [(each.bookie_id, each.index_directories) for each in attribution.bookies.values()]
    planned = plan_parts(bookies, 4)
    assert len(planned) == 6  # one per directory
    return [row for part in planned for batch in read_part(part) for row in batch.to_pylist()]


def java_indexes() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        gzip.decompress((DATA / CORPUS / "rocksdb-indexes.json.gz").read_bytes())
    )
    return loaded


def folded(java: dict[str, Any]) -> bytes:
    """What the server's unfolded value holds, in our canonical form."""
    data = bytes.fromhex(java["bytes"])
    return availability.encode(availability.decode(data))[HEADER_STRUCT.size :]


def test_every_directory_says_what_a_java_scan_of_its_databases_says(
    places: Path, rows: list[dict[str, Any]]
) -> None:
    seen = 0
    for place, directories in java_indexes().items():
        for name, java in directories.items():
            path = str(places / place.replace(":", "_") / name / "locations")
            here = {str(row["ledger_id"]): row for row in rows if row["path"] == path}
            assert set(here) == {*java["ledgers"], *java["locations"]}
            for ledger, row in here.items():
                held = folded(java["locations"][ledger]) if ledger in java["locations"] else b""
                assert row["groups"] == held
                assert row["state"] == ("ok" if ledger in java["ledgers"] else "not-indexed")
                assert (row["storage"], row["scope_id"], row["page_bytes"]) == ("rocksdb", 0, None)
            seen += len(here)
    assert seen == len(rows) == 173


def test_every_bookie_holds_what_its_storage_said_when_it_was_asked(rows: list[dict[str, Any]]) -> None:
    """It was asked before ledgers and locations were taken out of the index and disks were swapped."""
    held = {(str(row["ledger_id"]), row["bookie_id"]): row for row in rows}
    removed = {("10000000009", "bk-a.rack1")}
    for ledger, bookies in oracle(CORPUS)["availability"].items():
        for bookie, answer in bookies.items():
            row = held.pop((ledger, bookie), None)
            if answer.get("rc") == NO_LEDGER:
                assert row is None or row["state"] == "not-indexed"
            elif (ledger, bookie) not in removed:
                assert row is not None
                assert row["groups"] == folded(answer)
    assert not [row for row in held.values() if row["state"] == "ok" and row["groups"]]


def test_the_faults_that_were_made_are_seen(rows: list[dict[str, Any]]) -> None:
    assert {(row["ledger_id"], row["bookie_id"]) for row in rows if row["state"] == "not-indexed"} == {
        (2, "bk-c.rack2"),
        (3, "bk-b.rack1"),
    }
    assert max(row["ledger_id"] for row in rows) > 2**63 - 10_000
    [cut] = [row for row in rows if (row["ledger_id"], row["bookie_id"]) == (10_000_000_009, "bk-a.rack1")]
    groups = HEADER_STRUCT.pack(0, len(cut["groups"]) // 24) + cut["groups"]
    held = set(availability.expand(availability.decode(groups)).tolist())
    assert not held & {16, 17, 19}
    assert held


def test_swapped_disks_are_read_as_the_bookies_that_wrote_them(
    attribution: Attribution, places: Path
) -> None:
    assert {each.read for each in attribution.bookies.values()} == {"read"}
    for bookie, other in (("bk-a.rack1", "bk-b.rack1"), ("bk-b.rack1", "bk-a.rack1")):
        found = attribution.bookies[bookie]
        assert found.suspect
        assert [(each.path, each.position, each.directory_count) for each in found.index_directories] == [
            (str(places / bookie / "ledgers0"), 0, 2),
            (str(places / other / "ledgers1"), 1, 2),
        ]
    apart = attribution.bookies["bk-c.rack2"]
    assert [each.path for each in apart.index_directories] == [str(places / "bk-c.rack2" / "index0")]
