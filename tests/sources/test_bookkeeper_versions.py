"""Files of bookies of several BookKeeper versions, against the output of each version's own classes.

The directories tests/data/bookkeeper-VERSION have a README. ``oracle.json.gz`` is the output of that
version's Java.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import lzma
import shutil
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rocksdict import Options, Rdict

from auditor.codecs.bookie import cookie, index_file, ledger_data
from auditor.codecs.bookie.entry_log_records import EntryLogRecords
from auditor.codecs.bookie.journal import Journal
from auditor.codecs.ledger_metadata.one import decode
from auditor.keys import index_path
from auditor.keys.ledger_path import LONG_HIERARCHICAL
from auditor.model.cookie import Cookie
from auditor.sources.bookies.entry_logs.locations import read_location_batches
from auditor.sources.bookies.entry_logs.parts import open_cache
from auditor.sources.bookies.entry_logs.reader import read_contents
from auditor.sources.bookies.entry_logs.whole_entries import EntrySample, Secrets, read_whole_entries
from auditor.sources.bookies.journal.files import JournalDirectory
from auditor.sources.bookies.journal.tails import JournalTailPart, read_tail
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import INDEX_FILES, ROCKSDB, IndexDirectory, IndexPart, plan_parts
from auditor.sources.bookies.places import find_places, read_marks
from auditor.sources.bookies.rocksdb.scan import open_rocksdb, scan
from tests.sources.rocksdb_databases import entries

DATA = Path(__file__).parents[1] / "data"
VERSIONS = [f"bookkeeper-{release}" for release in ("4.14.7", "4.15.4", "4.16.6", "4.17.3", "4.18.0")]


class Golden(NamedTuple):
    """The bookies of one version on disk, and the output of its Java."""

    bookies: Path
    oracle: dict[str, Any]
    metadata: dict[str, bytes]

    def iter_bookies(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        for name, answers in self.oracle["bookies"].items():
            yield self.bookies / name, answers


@pytest.fixture(scope="module", params=VERSIONS)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    source = DATA / request.param
    target = tmp_path_factory.mktemp(request.param)
    with tarfile.open(source / "bookies.tar.xz") as archive:
        archive.extractall(target, filter="data")
    lines = gzip.decompress((source / "dump.jsonl.gz").read_bytes()).splitlines()
    znodes = [record for record in map(json.loads, lines) if "path" in record]
    return Golden(
        target / "bookies",
        json.loads(gzip.decompress((source / "oracle.json.gz").read_bytes())),
        {record["path"]: base64.b64decode(record["data"]) for record in znodes},
    )


def part_of(place: Path) -> IndexPart:
    """Return the whole index of a bookie as the part of one task."""
    current = place / "ledgers" / "current"
    storage = ROCKSDB if (current / "locations").is_dir() else INDEX_FILES
    directory = IndexDirectory.from_version(
        str(place / "ledgers"), (current / "VERSION").read_bytes(), storage
    )
    (part,) = plan_parts([(place.name, [directory])], 1)
    return part


def read_index(place: Path) -> dict[int, list[int]]:
    rows = [row for batch in read_part(part_of(place)) for row in batch.to_pylist()]
    assert {row["state"] for row in rows} == {"ok"}
    return {row["ledger_id"]: entries(row["groups"]) for row in rows}


def tail_of(place: Path) -> dict[int, list[int]]:
    directory = place / "journal"
    version_hash = hashlib.sha256((directory / "current" / "VERSION").read_bytes()).hexdigest()
    mark = read_marks(str(place / "ledgers"))["lastMark"]
    journal = JournalDirectory(str(directory), version_hash, *mark)
    rows = [row for batch in read_tail(JournalTailPart("bk", (journal,))) for row in batch.to_pylist()]
    assert {row["state"] for row in rows} == {"ok"}
    return {row["ledger_id"]: entries(row["groups"]) for row in rows if row["ledger_id"] is not None}


def test_cookies_equal_what_java_reads(golden: Golden) -> None:
    for place, answers in golden.iter_bookies():
        for directory, fields in answers["cookies"].items():
            decoded = cookie.decode((place / directory / "current" / "VERSION").read_bytes())
            index = fields.get("indexDirs")
            assert decoded == Cookie(
                fields["layoutVersion"],
                fields["bookieId"],
                fields["journalDirs"],
                cookie.directories(fields["ledgerDirs"]),
                index and cookie.directories(index),
                fields["instanceId"],
            )


def test_unclean_shutdown_is_detected_from_4_15_on(golden: Golden) -> None:
    places = find_places([str(golden.bookies)])
    unclean_flags = {
        (place.name, directory.parts_in_place[-1]): directory.unclean
        for place in places
        for directory in place.directories
        if directory.has_current
    }
    shows = golden.oracle["version"] >= "4.15"
    assert {is_unclean for (_, role), is_unclean in unclean_flags.items() if role == "ledgers"} == {shows}
    assert {is_unclean for (_, role), is_unclean in unclean_flags.items() if role == "journal"} == {False}


def test_marks_equal_those_of_java(golden: Golden) -> None:
    for place, answers in golden.iter_bookies():
        assert list(read_marks(str(place / "ledgers"))["lastMark"]) == answers["mark"]


def test_journals_contain_the_records_that_java_reads(golden: Golden) -> None:
    versions = set()
    for place, answers in golden.iter_bookies():
        for name, file in answers["journals"].items():
            data = (place / "journal" / "current" / name).read_bytes()
            journal = Journal.open(lambda pos, length, data=data: data[pos : pos + length], len(data))  # type: ignore[misc]  # a default binds the loop variable
            rows = [
                list(row)
                for batch in journal.records()
                for row in zip(
                    *(column.tolist() for column in (batch.ledger_ids, batch.entry_ids, batch.offsets)),
                    strict=True,
                )
            ]
            assert rows == file["records"]
            assert (journal.version, journal.is_cut) == (file["version"], False)
            versions.add(journal.version)
    assert versions == {4, 5, 6}


def test_journal_tail_equals_what_java_scans_after_the_mark(golden: Golden) -> None:
    for place, answers in golden.iter_bookies():
        file_id, offset = answers["mark"]
        expected = defaultdict(set)
        for name, file in answers["journals"].items():
            begins = (int(name.removesuffix(".txn"), 16), 0)
            for ledger, entry, position in file["records"]:
                if (begins[0], position) >= (file_id, offset) and entry >= 0:
                    expected[ledger].add(entry)
        assert tail_of(place) == {ledger: sorted(entry_ids) for ledger, entry_ids in expected.items()}
        assert {7, 8, 9} <= expected.keys()


def test_entry_logs_contain_the_entries_and_ledgers_of_java(golden: Golden) -> None:
    by, direct = set(), set()
    for place, answers in golden.iter_bookies():
        for name, file in answers["logs"].items():
            path = place / "ledgers" / "current" / name
            data = path.read_bytes()
            if not data:
                assert file == {"entries": [], "ledgers": {}}
                continue
            records = EntryLogRecords(lambda pos, length, data=data: data[pos : pos + length], len(data))  # type: ignore[misc]  # a default binds the loop variable
            rows = [
                [ledger, entry, offset, size - 4]
                for batch in records.entries()
                for ledger, entry, offset, size in zip(
                    *(column.tolist() for column in (batch.ledger_ids, batch.entry_ids)),
                    *(column.tolist() for column in (batch.offsets, batch.sizes)),
                    strict=True,
                )
            ]
            assert rows == file["entries"]
            for verify in (False, True):
                contents = read_contents(str(path), verify=verify)
                assert contents.damage is contents.map_damage is None
                sizes = zip(contents.ledger_ids.tolist(), contents.bytes.tolist(), strict=True)
                assert {str(ledger): size for ledger, size in sizes} == file["ledgers"]
                by.add(contents.bytes_source)
            direct.add((place.name, contents.is_direct))
    assert by == {"map", "scan"}
    is_known = golden.oracle["version"] >= "4.16"
    assert {name for name, is_direct in direct if is_direct} == ({"bk4_3181"} if is_known else set())


def test_ledgers_map_in_two_records_is_read_as_one_map(tmp_path: Path) -> None:
    """Versions 4.14.7, 4.15.4, 4.16.6, 4.17.3 and 4.18.0 write equal bytes: 16 for each ledger's entry."""
    path = tmp_path / "0.log"
    path.write_bytes(lzma.decompress((DATA / "bookkeeper-4.18.0" / "several-maps.log.xz").read_bytes()))
    for verify in (False, True):
        contents = read_contents(str(path), verify=verify)
        assert contents.damage is contents.map_damage is None
        assert sorted(contents.ledger_ids.tolist()) == list(range(10_003))
        assert set(contents.bytes.tolist()) == {20}
        assert contents.map_bytes == 2 * 24 + 16 * 10_003
        assert contents.size == contents.header_bytes + contents.entry_bytes + contents.map_bytes


def test_indexes_contain_the_entries_and_locations_of_java(golden: Golden) -> None:
    for place, answers in golden.iter_bookies():
        java = answers.get("locations") or {
            str(int(name.removesuffix(".idx"), 16)): row["entries"] for name, row in answers["index"].items()
        }
        locations: dict[str, dict[str, int]] = defaultdict(dict)
        for located in read_location_batches(part_of(place)):
            for ledger, entry, location in zip(
                *(column.tolist() for column in (located.ledger_ids, located.entry_ids, located.locations)),
                strict=True,
            ):
                locations[str(ledger)][str(entry)] = location
        assert locations == java
        assert read_index(place) == {int(ledger): sorted(map(int, ids)) for ledger, ids in java.items()}


def test_index_headers_equal_what_java_reads(golden: Golden) -> None:
    headers = set()
    for place, answers in golden.iter_bookies():
        for name, row in answers.get("index", {}).items():
            file = index_path.to_path(int(name.removesuffix(".idx"), 16))
            header = index_file.decode_header((place / "ledgers" / "current" / file).read_bytes())
            assert (header.fenced, header.explicit_lac) == (row["fenced"], row["explicit_lac"])
            assert header.has_master_key
            headers.add((header.version, header.fenced, header.explicit_lac is not None))
    assert {version for version, _, _ in headers} == {0, 1}
    assert (0, True, False) in headers
    assert (1, False, True) in headers


def key_rights(place: Path, password: bytes | None = b"golden") -> dict[int, bool | None]:
    """Return whether each ledger's master key matches the password; None means unknown."""
    secrets = Secrets(password, b"of this test")
    batches = read_whole_entries(
        part_of(place), [str(place / "ledgers")], EntrySample(0, 100, 1 << 30), secrets
    )
    rows = [row for batch in batches for row in batch.to_pylist() if row["ledger_id"] is not None]
    tags = defaultdict(set)
    for row in rows:
        tags[row["key_right"]].add(row["key_tag"])
    assert len(tags[True]) <= 1  # one password, one tag
    return {row["ledger_id"]: row["key_right"] for row in rows}


def test_master_keys_are_compared_with_the_password(golden: Golden, tmp_path: Path) -> None:
    for place, _ in golden.iter_bookies():
        assert set(key_rights(place).values()) == {True}
        assert set(key_rights(place, None).values()) == {None}
    copied = Path(shutil.copytree(golden.bookies / "bk1_3181", tmp_path / "bk1"))
    first, second, third, *remaining = sorted(key_rights(copied))
    for ledger, key in ((first, b"\xa5" * 20), (second, bytes(20)), (third, b"BKLE")):
        with (copied / "ledgers" / "current" / index_path.to_path(ledger)).open("r+b") as file:
            file.seek(0 if key == b"BKLE" else 12)
            file.write(key[::-1])
    assert key_rights(copied) == {first: False, second: None, third: None, **dict.fromkeys(remaining, True)}
    copied = Path(shutil.copytree(golden.bookies / "bk3_3181", tmp_path / "bk3"))
    first, second, *remaining = sorted(key_rights(copied))
    with Rdict(str(copied / "ledgers" / "current" / "ledgers"), Options(raw_mode=True)) as database:
        database[first.to_bytes(8, "big")] = bytes.fromhex("080110001a14") + b"\xa5" * 20
        # The key of an offline rebuild counts over the other.
        database[second.to_bytes(8, "big") + bytes(8)] = bytes.fromhex("080110011a00")
    assert key_rights(copied) == {first: False, second: None, **dict.fromkeys(remaining, True)}


def test_ledger_data_equals_what_java_reads(golden: Golden) -> None:
    flags = set()
    for place, answers in golden.iter_bookies():
        if "ledgers" not in answers:
            continue
        path = str(place / "ledgers" / "current" / "ledgers")
        decoded = {}
        with open_rocksdb(path) as database:
            for rows in scan(database, path):
                for row in range(len(rows.keys.offsets) - 1):
                    number = int.from_bytes(rows.keys.string(row), "big", signed=True)
                    if number >= 0:
                        decoded[str(number)] = ledger_data.decode(rows.values.string(row))
        assert decoded.keys() == answers["ledgers"].keys()
        for ledger, data in decoded.items():
            java = answers["ledgers"][ledger]
            assert (data.exists, data.fenced, data.has_master_key) == (java["exists"], java["fenced"], True)
            assert data.limbo == bool(java["limbo"])  # versions before 4.15 have none
            flags.add(data.fenced)
    assert flags == {False, True}


def test_garbage_collector_cache_equals_the_logs(golden: Golden) -> None:
    place = golden.bookies / "bk3_3181"
    cached = {}
    with open_cache(str(place / "ledgers")) as cache:
        for name, log in golden.oracle["bookies"][place.name]["logs"].items():
            path = place / "ledgers" / "current" / name
            if path.stat().st_size:
                log_id = int(name.removesuffix(".log"), 16)
                cache_record = cache.check_record(log_id, read_contents(str(path)))
                cached[name] = cache_record.state
                sizes = (
                    None
                    if cache_record.bytes_by_ledger is None
                    else {str(ledger): size for ledger, size in cache_record.bytes_by_ledger.items()}
                )
                assert sizes in (None, log["ledgers"])
    # 4.14 does not know the setting.
    assert set(cached.values()) == {None if golden.oracle["version"] < "4.15" else "ok"}


def test_ledgers_equal_what_the_client_wrote_and_every_copy_exists(golden: Golden) -> None:
    indexed = {place.name.removesuffix("_3181"): read_index(place) for place, _ in golden.iter_bookies()}
    tails = {place.name.removesuffix("_3181"): tail_of(place) for place, _ in golden.iter_bookies()}
    stored = {
        LONG_HIERARCHICAL.from_path(path.removeprefix("/ledgers/")): data
        for path, data in golden.metadata.items()
    }
    for ledger, wrote in golden.oracle["ledgers"].items():
        metadata = decode(stored[int(ledger)])
        assert metadata.state.name == wrote["state"]
        assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (
            wrote["ensemble"],
            wrote["write_quorum"],
            wrote["ack_quorum"],
        )
        last = wrote["last_add_confirmed"]
        if wrote["state"] == "CLOSED":
            assert (metadata.last_entry_id, metadata.length) == (last, wrote["length"])
        ((_, members),) = wrote["ensembles"].items()
        for position, member in enumerate(members):
            striped = {
                entry
                for entry in range(last + 1)
                if (position - entry) % wrote["ensemble"] < wrote["write_quorum"]
            }
            present = {*indexed[member].get(int(ledger), []), *tails[member].get(int(ledger), [])}
            assert present == striped, (ledger, member)
