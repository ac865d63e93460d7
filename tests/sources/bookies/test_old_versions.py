"""Tests of data of BookKeeper 4.1 and 4.2 bookies and clients, against their own client after a restart."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from auditor.codecs.availability.groups import GROUP
from auditor.codecs.availability.wire import expand
from auditor.codecs.bookie import cookie, last_mark
from auditor.codecs.bookie.entry_log import decode_unchecked_header
from auditor.codecs.bookie.entry_log_records import EntryLogRecords
from auditor.codecs.bookie.index_file import decode_header
from auditor.codecs.bookie.journal import Journal
from auditor.codecs.ledger_metadata import one as ledger_metadata
from auditor.codecs.store import layout
from auditor.demo.sample import extract
from auditor.keys.ledger_path import FLAT, HIERARCHICAL
from auditor.model.ledger_metadata import LedgerMetadata
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.spark_source import find_indexes

DATA = Path(__file__).parents[2] / "data"


class FormatVersions(NamedTuple):
    """The version of each format that a server writes."""

    layout: int
    metadata: int
    cookie: int
    journal: int
    entry_log: int
    index_file: int


FORMAT_VERSIONS = {
    "4.1.0": FormatVersions(1, 1, 3, 3, 0, 0),
    "4.2.3": FormatVersions(2, 2, 4, 4, 0, 0),
}
Pairs = set[tuple[int, int]]
for_old_versions = pytest.mark.parametrize("version", FORMAT_VERSIONS)


@pytest.fixture
def bookies(version: str, tmp_path: Path) -> Path:
    extract(DATA / f"bookkeeper-{version}" / "bookies.tar.gz", tmp_path)
    return tmp_path / "bookies"


@cache
def znodes(version: str) -> dict[str, bytes]:
    lines = gzip.decompress((DATA / f"bookkeeper-{version}" / "znodes.jsonl.gz").read_bytes()).splitlines()
    return {node["path"]: base64.b64decode(node["data"]) for node in map(json.loads, lines)}


def ledgers(version: str) -> dict[int, LedgerMetadata]:
    """Return the ledger metadata by id. The layout of ledger paths was flat and later hierarchical."""
    decoded = {}
    for path, data in znodes(version).items():
        below = path.removeprefix("/ledgers/")
        id = FLAT.from_path(below) if "/" not in below else HIERARCHICAL.from_path(below)
        if id is not None:
            decoded[id] = ledger_metadata.decode(data)
    return decoded


def oracle_ledgers(version: str) -> dict[int, dict[str, Any]]:
    oracle = json.loads(gzip.decompress((DATA / f"bookkeeper-{version}" / "oracle.json.gz").read_bytes()))
    return {ledger["id"]: ledger for ledger in oracle["ledgers"]}


def expected_pairs(version: str) -> dict[str, Pairs]:
    """Return the entries of each bookie: entry e of an ensemble is on its members (e + w) mod E."""
    pairs_by_bookie: dict[str, Pairs] = {}
    for id, metadata in ledgers(version).items():
        (segment,) = metadata.segments
        # A client reads up to what is confirmed; the last entry of an open ledger is not.
        for entry in range(len(oracle_ledgers(version)[id]["sizes"]) + (metadata.state != "CLOSED")):
            for copy in range(metadata.write_quorum):
                member = segment.ensemble[(entry + copy) % metadata.ensemble_size]
                pairs_by_bookie.setdefault(member, set()).add((id, entry))
    return pairs_by_bookie


@for_old_versions
def test_ledger_metadata_equals_what_the_client_read(version: str) -> None:
    read = ledgers(version)
    assert read.keys() == oracle_ledgers(version).keys()
    for id, metadata in read.items():
        assert metadata.format_version == FORMAT_VERSIONS[version].metadata
        if metadata.state == "CLOSED":
            assert (metadata.last_entry_id, metadata.length) == (
                oracle_ledgers(version)[id]["last"],
                oracle_ledgers(version)[id]["length"],
            )
    assert [metadata.state == "CLOSED" for _, metadata in sorted(read.items())] == [
        True,
        True,
        False,
        True,
        True,
        True,
    ]


@for_old_versions
def test_cookies_and_layout_are_read(version: str, bookies: Path) -> None:
    cookies = {path.rpartition("/")[2]: data for path, data in znodes(version).items() if "/cookies/" in path}
    assert len(cookies) == 3
    for place in bookies.iterdir():
        (data,) = {(place / role / "current/VERSION").read_bytes() for role in ("journal", "ledgers")}
        read = cookie.decode(data)
        assert cookie.decode(cookies[read.bookie_id]) == read
        assert read.layout == FORMAT_VERSIONS[version].cookie
    assert layout.decode(znodes(version)["/ledgers/LAYOUT"]).format_version == FORMAT_VERSIONS[version].layout


@for_old_versions
def test_indexes_contain_the_expected_entries(version: str, bookies: Path) -> None:
    pairs_by_bookie: dict[str, Pairs] = {}
    for part in find_indexes({"bookies": str(bookies)}).index_parts:
        for row in (row for batch in read_part(part) for row in batch.to_pylist()):
            assert row["state"] == "ok"
            entries = expand(np.frombuffer(row["groups"], GROUP)).tolist()
            pairs_by_bookie.setdefault(row["bookie_id"], set()).update(
                (row["ledger_id"], entry) for entry in entries
            )
    assert pairs_by_bookie == expected_pairs(version)
    headers = [decode_header(file.read_bytes()[:1024]) for file in bookies.rglob("*.idx")]
    assert {header.version for header in headers} == {FORMAT_VERSIONS[version].index_file}


@for_old_versions
def test_journals_and_entry_logs_contain_the_expected_entries(version: str, bookies: Path) -> None:
    for place in bookies.iterdir():
        own = expected_pairs(version)[
            cookie.decode((place / "journal/current/VERSION").read_bytes()).bookie_id
        ]
        journals = [journal_of(file) for file in (place / "journal/current").glob("*.txn")]
        logs = [file.read_bytes() for file in (place / "ledgers/current").glob("*.log")]
        assert own <= {
            pair
            for journal in journals
            for records in journal.records(0)
            for pair in pairs_of(records.entries())
        }
        assert own == {
            pair
            for log in logs
            for log_records in EntryLogRecords(part_of(log), len(log)).entries()
            for pair in pairs_of(log_records)
        }
        assert {journal_file.version for journal_file in journals} == {FORMAT_VERSIONS[version].journal}
        assert {decode_unchecked_header(log).version for log in logs} == {FORMAT_VERSIONS[version].entry_log}
        assert last_mark.decode((place / "ledgers/current/lastMark").read_bytes()).file_id > 0


def journal_of(file: Path) -> Journal:
    data = file.read_bytes()
    return Journal.open(part_of(data), len(data))


def part_of(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, length: data[offset : offset + length]


def pairs_of(records: Any) -> Pairs:
    return {*zip(records.ledger_ids.tolist(), records.entry_ids.tolist(), strict=True)}
