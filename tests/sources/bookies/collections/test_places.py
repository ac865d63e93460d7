"""Tests that collected bookies give the same rows as on disk, and that incomplete ones are unread."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.collect.collect import collect
from auditor.model.cookie import Cookie
from auditor.sources.bookies.collections.copied_rows import CopiedRowsReader, make_shares
from auditor.sources.bookies.collections.places import collected_places, find_piece_owners
from auditor.sources.bookies.owners import attribute_directories
from auditor.sources.bookies.part_rows import SCHEMA, read_part
from auditor.sources.bookies.parts import plan_parts
from auditor.sources.bookies.places import find_places
from auditor.sources.bookies.source_kinds import split_sources
from tests.sources.bookie_corpora import cookie, make_directory, unpack_bookies

CORPORA = {
    "flat-v1": [f"bookie{n}.dc1.example:3181" for n in (1, 2, 3, 4)],
    "interleaved-hier": [f"127.0.101.{n}:3181" for n in (1, 2, 3, 4)],
    "dbledger-long": ["127.0.103.4:3181", "bk-a.rack1", "bk-b.rack1", "bk-c.rack2"],
}


@dataclass(frozen=True)
class ReadResult:
    """The read state of each bookie, and every row of availability, whatever the source of its index."""

    bookies: dict[str, tuple[str, str | None, int | None, bool]]
    rows: list[tuple[Any, ...]]
    notes: tuple[str, ...]
    broken: tuple[tuple[str, str], ...]
    overlapping: tuple[str, ...]


@pytest.fixture
def read(spark: SparkSession) -> Any:
    """Return a function that reads sources as an audit does, up to the table availability."""

    def read_sources(
        sources: Sequence[str | Path], bookie_ids: Set[str], cookies: Mapping[str, Cookie] | None = None
    ) -> ReadResult:
        split = split_sources([str(source) for source in sources])
        collected = collected_places(split.collections)
        places = [*find_places(split.directories), *collected.places]
        whole = find_piece_owners(attribute_directories(places, bookie_ids, cookies or {}, None), collected)
        bookies = whole.attribution.bookies
        planned = plan_parts(
            [(bookie.bookie_id, bookie.index_directories) for bookie in bookies.values()], 4, True
        )
        rows = [tuple(row.values()) for part in planned for b in read_part(part) for row in b.to_pylist()]
        share_lists = make_shares(collected.readable_collections, whole.owner_by_piece_id, 2)
        copied = [
            b
            for share_list in share_lists
            for b in CopiedRowsReader(whole.owner_by_piece_id).read(share_list)
        ]
        assert all(b.schema.names == SCHEMA.names for b in copied)
        rows += [tuple(row.values()) for b in copied for row in b.to_pylist()]
        return ReadResult(
            {
                name: (bookie.read, bookie.reason, bookie.index_time, bookie.suspect)
                for name, bookie in bookies.items()
            },
            sorted(rows, key=repr),
            collected.notes,
            collected.unreadable_collections,
            whole.overlapping_bookies,
        )

    return read_sources


def collect_to(source: Path, out: Path) -> Path:
    return Path(collect([str(source)], str(out)).path)


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("known_ids", ["all", "none"])
def test_collected_bookies_are_read_like_bookies_on_disk(
    corpus: str, known_ids: str, tmp_path: Path, read: Any
) -> None:
    root = unpack_bookies(corpus, tmp_path)
    ids = set(CORPORA[corpus]) if known_ids == "all" else set()
    on_disk = read([root], ids)
    assert len(on_disk.rows) > 80
    out = read([collect_to(root, tmp_path / "out")], ids)
    assert (out.bookies, out.rows) == (on_disk.bookies, on_disk.rows)
    # Two bookies of this corpus have each other's disks: their index comes in two pieces.
    assert out.overlapping == (("bk-a.rack1", "bk-b.rack1") if corpus == "dbledger-long" else ())


def test_each_bookie_may_be_collected_separately(tmp_path: Path, read: Any) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    ids = set(CORPORA["interleaved-hier"])
    on_disk = read([root], ids)
    for place in sorted(root.iterdir()):
        single = tmp_path / "hosts" / place.name / "bookies"
        single.mkdir(parents=True)
        place.rename(single / place.name)
        collect_to(single, tmp_path / "all" / place.name)
        shutil.move(single / place.name, root / place.name)  # as it was: paths in rows are those of its host
    one_by_one = read([tmp_path / "all" / "*"], ids)
    assert one_by_one == read([tmp_path / "all"], ids)
    assert one_by_one.bookies == on_disk.bookies
    assert [row[:6] for row in one_by_one.rows] == [row[:6] for row in on_disk.rows]


def swap(root: Path, first: str, second: str, name: str) -> None:
    (root / first / name).rename(root / "between")
    (root / second / name).rename(root / first / name)
    (root / "between").rename(root / second / name)


def test_swapped_disks_lose_no_rows_when_collected(tmp_path: Path, read: Any) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    swap(root, "127.0.101.3_3181", "127.0.101.1_3181", "ledgers0")
    ids = set(CORPORA["interleaved-hier"])
    on_disk = read([root], ids)
    assert on_disk.bookies["127.0.101.3:3181"][3]
    assert on_disk.bookies["127.0.101.3:3181"][0] == "read"
    out = read([collect_to(root, tmp_path / "out")], ids)
    assert out.overlapping == ("127.0.101.3:3181",)
    assert (out.bookies, out.rows) == (on_disk.bookies, on_disk.rows)


def test_directory_with_a_damaged_version_stays_in_its_place(tmp_path: Path, read: Any) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    (root / "127.0.101.3_3181/ledgers1/current/VERSION").write_bytes(b"5\ndamaged")
    ids = set(CORPORA["interleaved-hier"])
    on_disk = read([root], ids)
    assert on_disk.bookies["127.0.101.3:3181"][0] == "partial"
    out = read([collect_to(root, tmp_path / "out")], ids)
    assert out.rows == on_disk.rows
    assert out.overlapping == ("127.0.101.3:3181",)
    assert {name: bookie[0] for name, bookie in out.bookies.items()} == {
        name: bookie[0] for name, bookie in on_disk.bookies.items()
    }
    assert f"{tmp_path}/out#{root}/127.0.101.3_3181/ledgers1" in out.bookies["127.0.101.3:3181"][1]


def test_inventory_is_collected_like_a_directory(tmp_path: Path, read: Any) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    lines = []
    for number, name in enumerate(sorted(CORPORA["flat-v1"])):
        (root / name.replace(":", "_")).rename(root / f"disk{number}")
        lines += [f'[bookies."{name}"]', f'ledgers = ["bookies/disk{number}/ledgers0"]']
    inventory = tmp_path / "bookies.toml"
    inventory.write_text("\n".join(lines))
    ids = set(CORPORA["flat-v1"])
    on_disk = read([inventory], ids)
    assert {bookie[0] for bookie in on_disk.bookies.values()} == {"read"}
    assert read([collect_to(inventory, tmp_path / "out")], ids) == on_disk


def test_directory_with_a_second_copy_gives_no_rows(tmp_path: Path, read: Any) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    out = collect_to(root, tmp_path / "out")
    ids = set(CORPORA["interleaved-hier"])
    # A copy of one disk turns up at another bookie's: either could be it, so neither is read.
    copied = tmp_path / "more" / "127.0.101.1_3181"
    shutil.copytree(root / "127.0.101.3_3181" / "ledgers1", copied / "ledgers1")
    combined = read([out, tmp_path / "more"], ids)
    assert combined.bookies["127.0.101.3:3181"][0] == "partial"
    assert "could both be this directory" in combined.bookies["127.0.101.3:3181"][1]
    assert not [row for row in combined.rows if row[0] == "127.0.101.3:3181" and "/ledgers1/" in row[7]]
    assert [row for row in combined.rows if row[0] == "127.0.101.3:3181" and "/ledgers0/" in row[7]]


def test_store_cookie_does_not_make_an_uncollected_index_readable(tmp_path: Path, read: Any) -> None:
    make_directory(tmp_path / "bookies/bk-a_3181/ledgers0", None)
    (tmp_path / "bookies/bk-a_3181/ledgers0/current/0/7").mkdir(parents=True)
    (tmp_path / "bookies/bk-a_3181/ledgers0/current/0/7/7.idx").touch()
    in_store = {"bk-a:3181": Cookie(5, "bk-a:3181", "/data/journal", ("/data/ledgers0",))}
    result = read([collect_to(tmp_path / "bookies", tmp_path / "out")], {"bk-a:3181"}, in_store)
    state, reason, _, _ = result.bookies["bk-a:3181"]
    assert state == "unread"
    assert "no index was collected from it" in reason
    assert result.rows == []


def version(bookie_id: str = "bk-a:3181") -> bytes:
    return cookie(bookie_id, ["/data/ledgers0", "/data/ledgers1"])


def disk(place: Path, name: str, ledger: int, bookie_id: str = "bk-a:3181") -> Path:
    """Make a ledger directory with one empty index file."""
    directory = make_directory(place / name, version(bookie_id))
    file = directory / "current" / "0" / str(ledger) / f"{ledger}.idx"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"BKLE".ljust(1024, b"\0"))
    return directory


def ledgers(result: ReadResult) -> dict[str, set[int]]:
    stored: dict[str, set[int]] = {}
    for row in result.rows:
        stored.setdefault(row[0], set()).add(row[2])
    return stored


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock a second at each reading, so that the newer collection does not depend on speed."""
    times = iter(range(1_000, 10**9, 1_000))
    monkeypatch.setattr("auditor.collect.collect.now_ms", lambda: next(times))


@pytest.mark.usefixtures("clock")
def test_newer_collection_of_the_same_directories_replaces_the_older_one(tmp_path: Path, read: Any) -> None:
    place = tmp_path / "bookies" / "bk-a_3181"
    disk(place, "ledgers0", 1)
    disk(place, "ledgers1", 2)
    old = collect_to(tmp_path / "bookies", tmp_path / "old")
    shutil.rmtree(place / "ledgers1")
    disk(place, "ledgers2", 3)  # no path of the cookie's
    shutil.rmtree(place / "ledgers0/current/0")
    new = collect_to(tmp_path / "bookies", tmp_path / "new")
    for sources in ([old, new], [new, old]):
        result = read(sources, {"bk-a:3181"})
        assert ledgers(result) == {}  # neither the old index nor the lost disk
        assert result.bookies["bk-a:3181"][0] == "partial"
        assert result.notes == (f"{old}: bookie bk-a:3181 is read from the newer collection {new}",)


@pytest.mark.usefixtures("clock")
def test_bookie_collected_again_at_another_path_replaces_the_older_one(tmp_path: Path, read: Any) -> None:
    disk(tmp_path / "mounted/bk-a_3181", "ledgers0", 1)
    disk(tmp_path / "mounted/bk-a_3181", "ledgers1", 2)
    old = collect_to(tmp_path / "mounted", tmp_path / "old")
    disk(tmp_path / "host/data", "ledgers0", 3)
    disk(tmp_path / "host/data", "ledgers1", 4)
    new = collect_to(tmp_path / "host", tmp_path / "new")
    result = read([old, new], {"bk-a:3181"})
    assert ledgers(result) == {"bk-a:3181": {3, 4}}
    assert result.bookies["bk-a:3181"][:2] == ("read", None)


@pytest.mark.usefixtures("clock")
def test_disks_collected_separately_are_combined(tmp_path: Path, read: Any) -> None:
    disk(tmp_path / "one/bk-a_3181", "ledgers0", 1)
    disk(tmp_path / "two/bk-a_3181", "ledgers1", 2)
    parts_of = [collect_to(tmp_path / name, tmp_path / "all" / name) for name in ("one", "two")]
    result = read(parts_of, {"bk-a:3181"})
    assert ledgers(result) == {"bk-a:3181": {1, 2}}
    assert result.bookies["bk-a:3181"][:2] == ("read", None)
    assert (result.overlapping, result.notes) == (("bk-a:3181",), ())
    [single] = [read([source], {"bk-a:3181"}) for source in parts_of[:1]]
    assert single.bookies["bk-a:3181"][0] == "partial"


@pytest.mark.usefixtures("clock")
def test_hosts_with_the_same_paths_are_kept_apart(tmp_path: Path, read: Any) -> None:
    for number, bookie_id in enumerate(("bk-a:3181", "bk-b:3181")):
        for position in (0, 1):
            disk(tmp_path / "host/data", f"ledgers{position}", 2 * number + position, bookie_id)
        collect_to(tmp_path / "host", tmp_path / "all" / str(number))
        shutil.rmtree(tmp_path / "host")
    result = read([tmp_path / "all"], {"bk-a:3181", "bk-b:3181"})
    assert ledgers(result) == {"bk-a:3181": {0, 1}, "bk-b:3181": {2, 3}}
    assert {bookie[0] for bookie in result.bookies.values()} == {"read"}
    assert result.notes == ()


def test_copy_of_a_collection_counts_once(tmp_path: Path, read: Any) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    out = collect_to(root, tmp_path / "all/out")
    once = read([out], set(CORPORA["flat-v1"]))
    shutil.copytree(out, tmp_path / "all/copy")
    assert read([tmp_path / "all"], set(CORPORA["flat-v1"])).rows == once.rows
    (tmp_path / "all/copy/availability/part-00000.parquet").unlink()
    assert read([tmp_path / "all"], set(CORPORA["flat-v1"])).rows == once.rows


def cut(out: Path) -> None:
    file = out / "availability/part-00000.parquet"
    file.write_bytes(file.read_bytes()[:-9])


def missing(out: Path) -> None:
    (out / "availability/part-00000.parquet").unlink()


def miscounted(out: Path) -> None:
    manifest = json.loads((out / "collection.json").read_text())
    table = manifest["tables"]["availability"]
    table["rows"] = table["files"][0]["rows"] = table["rows"] + 1
    (out / "collection.json").write_text(json.dumps(manifest))


def unfinished(out: Path) -> None:
    (out / "collection.json").unlink()


def of_another_version(out: Path) -> None:
    text = (out / "collection.json").read_text()
    (out / "collection.json").write_text(text.replace("collection/1", "collection/2"))


@pytest.mark.parametrize(
    ("damage", "error_text"),
    [
        (cut, "bytes"),
        (missing, "is missing"),
        (miscounted, "rows"),
        (unfinished, "was not finished"),
        (of_another_version, "collection/2"),
    ],
)
def test_damaged_collection_leaves_only_its_own_bookies_unread(
    damage: Any, error_text: str, tmp_path: Path, read: Any
) -> None:
    for name in ("bk-a", "bk-b"):
        for number in (0, 1):
            disk(tmp_path / name / f"{name}_3181", f"ledgers{number}", number, f"{name}:3181")
        collect_to(tmp_path / name, tmp_path / "all" / name)
    damage(tmp_path / "all" / "bk-a")
    result = read([tmp_path / "all"], {"bk-a:3181", "bk-b:3181"})
    state, reason, _, _ = result.bookies["bk-a:3181"]
    assert state == "unread"
    assert str(tmp_path / "all" / "bk-a") in reason
    assert error_text in reason
    assert [path for path, _ in result.broken] == [str(tmp_path / "all" / "bk-a")]
    assert result.bookies["bk-b:3181"][0] == "read"
    assert ledgers(result) == {"bk-b:3181": {0, 1}}


def test_unreadable_places_leave_a_collection_without_bookies(tmp_path: Path, read: Any) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    out = collect_to(root, tmp_path / "out")
    for name in ("places", "directories"):
        (out / name / "part-00000.parquet").write_bytes(b"PAR1")
    result = read([out], set(CORPORA["flat-v1"]))
    assert (result.bookies, result.rows) == ({}, [])
    assert [path for path, _ in result.broken] == [str(out)]


@pytest.mark.usefixtures("clock")
def test_complete_older_collection_replaces_a_newer_unfinished_one(tmp_path: Path, read: Any) -> None:
    disk(tmp_path / "bookies/bk-a_3181", "ledgers0", 1)
    disk(tmp_path / "bookies/bk-a_3181", "ledgers1", 2)
    old = collect_to(tmp_path / "bookies", tmp_path / "all/1")
    new = collect_to(tmp_path / "bookies", tmp_path / "all/2")
    unfinished(new)
    result = read([tmp_path / "all"], {"bk-a:3181"})
    assert result.bookies["bk-a:3181"][:2] == ("read", None)
    assert ledgers(result) == {"bk-a:3181": {1, 2}}
    assert result.broken == ((str(new), "was not finished: it has no collection.json"),)
    assert result.notes == (f"{new}: bookie bk-a:3181 is read from the newer collection {old}",)


def test_collections_with_odd_names_or_uris_are_read(tmp_path: Path, read: Any) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    ids = set(CORPORA["flat-v1"])
    on_disk = read([root], ids)
    assert read([collect_to(root, tmp_path / "out [1] {a,b} é")], ids) == on_disk
    collect([str(root)], f"{tmp_path.as_uri()}/by-uri")
    assert read([f"{tmp_path.as_uri()}/by-uri"], ids) == on_disk


def test_no_collection_gives_no_rows(read: Any) -> None:
    assert read([], set()) == ReadResult({}, [], (), (), ())
