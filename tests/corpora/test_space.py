"""Whose each byte of real bookies' entry logs is, held to a plain read of the files; and what was spoiled."""

from __future__ import annotations

import base64
import json
import os
import struct
import tarfile
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Options, Rdict

from auditor.codecs.bookie.entry import DIGEST_BYTES, crc32c, master_key
from auditor.collect.collect import collect
from auditor.model.amounts import plural
from auditor.model.options import AuditOptions
from auditor.model.run_facts import sentence_of
from auditor.model.states import SpaceClass
from auditor.runs.load_space import space_view
from auditor.runs.reader import RunReader
from tests.codecs.bookie.test_entry_log_records import one_by_one
from tests.codecs.entry_logs import ledgers_map
from tests.corpora.audited import Asked, audit
from tests.corpora.corpora import DATA, Corpus, unpack
from tests.corpora.test_collected import hold_to_the_disks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_LOGS = {"entry-log-header-wrong", "entry-log-missing", "entry-log-reclaimable", "entry-log-pinned"}
BOOKIE = "bookie{}.dc1.example:3181"
PASSWORD = "golden"
"""Of the ledgers of dbledger-long."""


def current(corpus: Corpus, number: int) -> Path:
    return corpus.bookies / f"bookie{number}.dc1.example_3181" / "ledgers0" / "current"


def sizes(data: bytes) -> Counter[int]:
    """Bytes per ledger."""
    found: Counter[int] = Counter()
    for _, size, _, ledger, _ in one_by_one(data):
        found[ledger] += size
    return found


def close(log: Path, without: int | None = None) -> None:
    """Give a log that was left open its map, but for one ledger."""
    data = log.read_bytes()
    pairs = [(ledger, size) for ledger, size in sizes(data).items() if ledger != without]
    header = struct.pack(">4siqi", b"BKLO", 1, len(data), len(pairs))
    log.write_bytes(header + data[len(header) :] + ledgers_map(pairs))


def point_elsewhere(index: Path) -> None:
    """Have the index say that the ledger's first entry lies where its log has another ledger's."""
    data = bytearray(index.read_bytes())
    slots = struct.unpack(f">{(len(data) - 1024) // 8}q", data[1024:])
    place = next(number for number, location in enumerate(slots) if location)
    log = index.parents[2] / f"{slots[place] >> 32:x}.log"
    mine = int(index.stem, 16)
    other = next(at for at, _, _, ledger, _ in one_by_one(log.read_bytes()) if ledger != mine)
    struct.pack_into(">q", data, 1024 + 8 * place, (slots[place] >> 32) << 32 | other + 4)
    index.write_bytes(data)


def with_logs(name: str, root: Path) -> Corpus:
    """A corpus and the entry logs of its bookies."""
    corpus = unpack(name, root / name)
    with tarfile.open(DATA / name / "entry-logs.tar.gz") as archive:
        archive.extractall(corpus.root, filter="data")
    return corpus


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """flat-v1 with a fault on each bookie: a map, a log that is gone, a log that was cut, an index."""
    corpus = with_logs("flat-v1", tmp_path_factory.mktemp("space"))
    close(current(corpus, 1) / "1.log")
    lacking = sizes((current(corpus, 1) / "0.log").read_bytes()).most_common(1)[0][0]
    close(current(corpus, 1) / "0.log", without=lacking)
    (current(corpus, 2) / "1.log").unlink()
    cut = current(corpus, 3) / "1.log"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    (current(corpus, 3) / "7.log.compacting").write_bytes(bytes(5000))
    (current(corpus, 3) / "1.log.0.compacted").hardlink_to(cut)
    index = max(current(corpus, 4).rglob("*.idx"), key=lambda each: each.stat().st_size)
    point_elsewhere(index)
    return corpus


@pytest.fixture(scope="module")
def found(spoiled: Corpus, spark: SparkSession) -> Asked:
    dump, out = f"dump://{spoiled.dump}", spoiled.root / "runs" / "space"
    return audit(spark, dump, spoiled.bookies, out, entry_logs=True, bookie_conf=configuration(spoiled))


def configuration(corpus: Corpus) -> str:
    """Compaction rewrites nearly every log that has something to free, within an hour, on any disk."""
    file = corpus.root / "bk_server.conf"
    settings = (
        *("minorCompactionThreshold=0.9", "majorCompactionThreshold=0.99"),
        *("minorCompactionInterval=600", "majorCompactionInterval=3600"),
        *("diskUsageThreshold=0.9999", "diskUsageWarnThreshold=0.9999"),
    )
    file.write_text("\n".join((*settings, "")))
    return str(file)


def test_what_a_run_hours_later_still_sees_is_stuck_and_what_waits_was_passed_over(
    spoiled: Corpus, found: Asked, spark: SparkSession
) -> None:
    later = spoiled.scan_time + 3 * 3_600_000
    again = audit(
        spark,
        f"dump://{spoiled.dump}",
        spoiled.bookies,
        found.out.parent / "later",
        entry_logs=True,
        bookie_conf=configuration(spoiled),
        scan_time=later,
        index_time=later,
    )
    registered = {row["bookie_id"] for row in again.table("bookies") if row["registered"] is not None}
    deleted = {
        row["bookie_id"]
        for row in found.table("gc_foresight")
        if row["pass"] == "listing" and row["reason"] in ("no-metadata", "not-collected", "metadata-suspect")
    }
    waiting = {row["bookie_id"] for row in found.table("log_foresight") if row["major_since"] is not None}
    assert deleted & registered
    assert waiting & registered
    for id, bookies in (("orphan-stuck", deleted), ("compaction-stopped", waiting)):
        assert found.of(id) == []
        assert {row["bookie_id"] for row in again.of(id)} == bookies & registered
        since = {json.loads(row["evidence"])["since"] for row in again.of(id)}
        assert since == {found.report.run.scan_time}


def test_the_classes_of_every_file_add_up_to_its_length(spoiled: Corpus, found: Asked) -> None:
    in_classes: Counter[str] = Counter()
    for row in found.table("space"):
        assert row["bytes"] > 0
        assert row["class"] in set(SpaceClass)
        in_classes[row["path"]] += row["bytes"]
    logs = [*spoiled.bookies.rglob("*.log"), *spoiled.bookies.rglob("*.compacting")]
    assert in_classes == {str(log): log.stat().st_size for log in logs}
    total = sum(log.stat().st_size for log in logs)
    [note] = [note for note in map(sentence_of, found.report.run.remarks) if note.startswith("entry logs: ")]
    assert note.startswith(f"entry logs: {len(logs)} files, all of their {total:,} bytes are classified")


def test_what_lies_beside_the_logs_is_the_length_of_the_files(spoiled: Corpus, found: Asked) -> None:
    rows = {row["directory"]: row for row in found.table("disks")}
    assert {str(path.parent) for path in spoiled.bookies.glob("*/*/current")} == set(rows)
    total: Counter[str] = Counter()
    for path, row in rows.items():
        files = [file for file in Path(path, "current").rglob("*") if file.is_file()]
        besides = sum(file.stat().st_size for file in files if ".log" not in file.name)
        kinds = {name: row[name] for name in row if name.endswith("_bytes") and "_" in name}
        assert kinds.pop("capacity_bytes") >= kinds.pop("free_bytes") > 0
        assert sum(kinds.values()) == besides
        assert (row["reason"], row["bookie_id"]) == (None, Path(path).parent.name.replace("_", ":"))
        total.update(kinds)
    assert 0 < total["index_bytes"] == sum(file.stat().st_size for file in spoiled.bookies.rglob("*.idx"))
    assert total["journal_bytes"] == sum(file.stat().st_size for file in spoiled.bookies.rglob("*.txn"))
    [note] = [
        note
        for note in map(sentence_of, found.report.run.remarks)
        if note.startswith("other files on the ledger disks (")
    ]
    assert f"{total['journal_bytes']:,} bytes of journals; {total['index_bytes']:,} bytes of indexes" in note


def test_bkaudit_space_has_the_sums_of_the_files(spoiled: Corpus, found: Asked) -> None:
    run = RunReader(found.out)
    total = sum(row["bytes"] for row in found.table("space"))
    for by in ("bookie", "ledger", "application", "age"):
        view = space_view(run, by)
        assert (view.bytes, view.file_bytes) == (total, total)
    # What the gate refuses is listed too: this cluster was saved long ago, and some of it is held.
    view = space_view(run, "bookie")
    steps = {(step.bookie_id, step.bytes) for step in view.steps}
    steps |= {(refused.bookie_id, refused.bytes) for refused in view.refused}
    for row in found.of("entry-log-reclaimable"):
        assert (row["bookie_id"], json.loads(row["evidence"])["bytes"]) in steps
    of_bookies = {each.name: each.bytes for each in space_view(run, "bookie").totals}
    for number in (1, 2, 3, 4):
        logs = [*current(spoiled, number).glob("*.log"), *current(spoiled, number).glob("*.compacting")]
        assert of_bookies[BOOKIE.format(number)] == sum(log.stat().st_size for log in logs)


def test_every_log_that_is_deleted_next_and_was_known_by_its_map_is_read_whole(found: Asked) -> None:
    maps = {row["path"] for row in found.table("entry_logs") if row["counted"] == "map"}
    going = {row["path"] for row in found.table("log_foresight") if row["action"] == "delete"}
    candidates = found.table("deletion_candidates")
    assert {row["path"] for row in candidates} == going & maps
    assert {row["state"] for row in candidates} <= {"ok"}


def test_bytes_of_every_ledger_are_those_of_a_plain_read(spoiled: Corpus, found: Asked) -> None:
    of_ledgers: Counter[tuple[str, int]] = Counter()
    for row in found.table("space"):
        if row["ledger_id"] is not None:
            of_ledgers[row["path"], row["ledger_id"]] += row["bytes"]
    plain = {
        (str(log), ledger): size
        for log in spoiled.bookies.rglob("*.log")
        for ledger, size in sizes(log.read_bytes()).items()
    }
    assert of_ledgers == plain


def test_each_spoiled_file_is_found_by_its_id_and_no_other(found: Asked) -> None:
    seen = {(each.id, each.bookie) for each in found.seen() if each.id in OF_LOGS - {"entry-log-pinned"}}
    assert seen == {
        ("entry-log-header-wrong", BOOKIE.format(1)),
        ("entry-log-missing", BOOKIE.format(2)),
        ("entry-log-missing", BOOKIE.format(3)),
        ("entry-log-missing", BOOKIE.format(4)),
    }
    states = {(row["bookie_id"], row["log_id"]): row["state"] for row in found.table("entry_logs")}
    assert states[BOOKIE.format(1), 0] == "map-wrong"
    assert states[BOOKIE.format(1), 1] == "ok"
    kinds: dict[str, set[str]] = {BOOKIE.format(number): set() for number in (1, 2, 3, 4)}
    for row in found.table("misplaced"):
        kinds[row["bookie_id"]].add(row["probe"])
    assert list(kinds.values()) == [set(), {"missing"}, {"past-end"}, {"other"}]
    [wrong] = found.of("entry-log-header-wrong")
    assert (wrong["severity"], wrong["confidence"]) == ("critical", "confirmed")
    assert "the ledgers map is wrong for 1 ledger" in wrong["message"]


def test_classes_follow_what_other_checks_say(found: Asked) -> None:
    classes = {
        (row["bookie_id"], row["ledger_id"], row["class"])
        for row in found.table("space")
        if row["ledger_id"] is not None
    }
    gone = {(row["bookie_id"], row["ledger_id"]) for row in found.table("orphans")}
    here = {(bookie, ledger) for bookie, ledger, kind in classes if kind == SpaceClass.ORPHAN}
    assert here
    assert here <= gone
    foreign = {(bookie, ledger) for bookie, ledger, kind in classes if kind == SpaceClass.OVER_REPLICATED}
    named = {(row["bookie_id"], row["ledger_id"]) for row in found.of("over-replicated-ledger")}
    assert foreign == named & {(bookie, ledger) for bookie, ledger, _ in classes}


def deep(spark: SparkSession, corpus: Corpus, **options: Any) -> Asked:
    """An audit that holds every entry to its digest."""
    dump, run = f"dump://{corpus.dump}", corpus.root / "space"
    return audit(spark, dump, corpus.bookies, run, entry_logs=True, deep=True, digest_percent=100, **options)


def as_on_disk(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of any order, with the paths that a host's own directories have."""
    named = [
        {key: each.partition("#")[2] if key in ("directory", "path") and "#" in str(each) else each
         for key, each in row.items() if key != "seen"}
        for row in rows
    ]  # fmt: skip
    return sorted(named, key=repr)


NOT_OFFERED = ("entry-log-reclaimable", "entry-log-pinned")


def unread_key(row: dict[str, Any]) -> tuple[str, int]:
    return row["path"], row["ledger_id"]


def hold_space(
    direct: list[dict[str, Any]], collected: list[dict[str, Any]], unread: set[tuple[str, int]]
) -> None:
    """The same bytes; those of ``unread`` ledgers in logs may be not-indexed, or superseded after all."""
    known = [[row for row in rows if unread_key(row) not in unread] for rows in (direct, collected)]
    assert known[0] == known[1]
    sizes: list[Counter[tuple[str, int]]] = [Counter(), Counter()]
    for total, rows in zip(sizes, (direct, collected), strict=True):
        for row in rows:
            if unread_key(row) in unread:
                total[unread_key(row)] += row["bytes"]
    assert sizes[0] == sizes[1]
    unsure = {row["class"] for row in collected if unread_key(row) in unread}
    assert SpaceClass.SUPERSEDED not in unsure


def hold_to(direct: Asked, collected: Asked) -> None:
    """The findings and tables of an audit of collections are those of the audit of the directories.

    A collection has no entries. Where an index lacks some of a ledger, all bytes in a log that the index has
    nothing of the ledger in may be these, and the log is not offered. Nor can index and list of logs be read
    again: entries in a log that is not there are unknown of a bookie that runs.
    """
    gone = {row["ledger_id"] for row in collected.table("gone_entries")}
    assert gone == {row["ledger_id"] for row in direct.table("gone_entries")}
    unread = {unread_key(row) for row in as_on_disk(collected.table("log_entries"))}
    logs = {path for path, _ in unread}
    hold_to_the_disks(collected, direct, but=NOT_OFFERED if unread else (), ledgers=gone)
    for name in ("entry_logs", "locations", "misplaced"):
        assert as_on_disk(collected.table(name)) == as_on_disk(direct.table(name)), name
    foresight = [as_on_disk(run.table("log_foresight")) for run in (direct, collected)]
    known = [[row for row in rows if row["path"] not in logs] for rows in foresight]
    assert known[0] == known[1]
    assert {row["frees"] for row in foresight[1] if row["needed"]} <= {0}
    hold_space(as_on_disk(direct.table("space")), as_on_disk(collected.table("space")), unread)
    sizes = [
        [{**row, "free_bytes": row["free_bytes"] > 0} for row in each.table("disks")]
        for each in (direct, collected)
    ]
    assert as_on_disk(sizes[1]) == as_on_disk(sizes[0])


def test_collected_index_files_and_logs_give_the_space_of_the_disks(
    spoiled: Corpus, found: Asked, spark: SparkSession
) -> None:
    out = spoiled.root / "collected"
    made = collect([str(spoiled.bookies)], str(out), AuditOptions(entry_logs=True), spark)
    assert made.unread_count == 0
    dump = f"dump://{spoiled.dump}"
    conf = configuration(spoiled)
    run = spoiled.root / "of-collection" / "run"
    collected = audit(spark, dump, out, run, entry_logs=True, bookie_conf=conf)
    hold_to(found, collected)
    registered = {row["bookie_id"] for row in found.table("bookies") if row["registered"] is not None}
    gone = {(row["bookie_id"], row["ledger_id"]): row["state"] for row in collected.table("gone_entries")}
    assert set(gone.values()) == {"once"}
    unknown = {
        (part["bookie_id"], row["ledger_id"])
        for row in collected.table("judged")
        for part in row["unknown"]
        if part["why"] == "entry-log-gone"
    }
    assert unknown
    assert unknown <= {replica for replica in gone if replica[0] in registered}
    assert {row["state"] for row in found.table("gone_entries")} == {"agreed"}
    assert not [
        part for row in found.table("judged") for part in row["unknown"] if part["why"] == "entry-log-gone"
    ]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """dbledger-long as it is: a log space for each ledger directory, two directories swapped."""
    return with_logs("dbledger-long", tmp_path_factory.mktemp("space"))


@pytest.fixture(scope="module")
def databases(real: Corpus, spark: SparkSession) -> Asked:
    return deep(spark, real)


def test_real_databases_and_their_logs_agree(databases: Asked) -> None:
    ours, bookies = databases, databases.out.parent / "bookies"
    rows = ours.table("space")
    logs = [log for log in bookies.rglob("*.log") if log.parent.name == "current"]
    assert sum(row["bytes"] for row in rows) == sum(log.stat().st_size for log in logs)
    assert ours.table("misplaced") == []
    located = [row for row in ours.table("locations") if row["log_id"] is not None]
    assert {row["probe"] for row in located} == {"ok"}
    assert not {each.id for each in ours.seen()} & {"entry-log-header-wrong", "entry-log-missing"}
    wanted = {each.id for each in ours.seen()} - OF_LOGS
    assert "orphan-ledger" in wanted
    assert SpaceClass.LIVE in {row["class"] for row in rows}


def test_every_entry_that_real_clients_wrote_matches_its_digest(databases: Asked) -> None:
    rows = [row for row in databases.table("digests") if row["ledger_id"] is not None]
    states = Counter((row["digest_type"], row["state"], row["reason"]) for row in rows)
    assert {kind for kind, _, reason in states if reason is None} >= {"CRC32", "CRC32C"}
    assert {state for _, state, reason in states if reason is None} == {"right"}
    assert {kind for kind, _, reason in states if reason == "no-password"} == {"MAC"}
    assert {row["entries"] for row in rows} == {1}
    held = sum(row["entries"] for row in databases.table("locations") if row["log_id"] is not None)
    assert len(rows) == held
    assert databases.of("entry-digest-wrong") == []
    assert any(note.startswith("digests: ") for note in map(sentence_of, databases.report.run.remarks))


def test_collected_databases_and_logs_give_the_space_of_the_disks(
    real: Corpus, databases: Asked, spark: SparkSession
) -> None:
    """One collection a bookie, the last of them without entry logs: of its disks nothing else is said."""
    places = sorted(real.bookies.iterdir())
    for place in places:
        beside = real.root / "hosts" / place.name
        beside.mkdir(parents=True)
        (beside / place.name).symlink_to(place)
        logs_too = AuditOptions(entry_logs=place != places[-1])
        collect([str(beside)], str(real.root / "collected" / place.name), logs_too)
    out = real.root / "of-collections"
    collected = audit(spark, f"dump://{real.dump}", real.root / "collected", out, entry_logs=True, deep=True)
    last = {path.name for path in places[-1].iterdir() if list(path.glob("current/*.log"))}
    unread = [row for row in collected.table("entry_logs") if row["reason"] and row["bytes"] is None]
    assert {row["reason"] for row in unread} == {"the bookie's collection was made without --entry-logs"}
    assert {Path(row["directory"]).parts[-2:] for row in unread} == {(places[-1].name, name) for name in last}

    def others(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows = [row for row in rows if places[-1].name not in row["path"]]
        # Directories of a host are below the link that it was collected through.
        return [{**row, **{key: f"{Path(*Path(row[key]).parts[-back:])}"
                 for key, back in (("directory", 2), ("path", 4))}} for row in rows]  # fmt: skip

    unknown = {unread_key(row) for row in as_on_disk(others(collected.table("log_entries")))}
    hold_space(
        as_on_disk(others(databases.table("space"))), as_on_disk(others(collected.table("space"))), unknown
    )
    assert others(collected.table("space"))
    notes = [*map(sentence_of, collected.report.run.remarks)]
    assert any("bookies read from collections" in note for note in notes)
    assert any(note.startswith(f"entry logs: {plural(len(unread), 'file')} or director") for note in notes)


def differing(corpus: Corpus) -> set[int]:
    """Ledgers of which members have different payloads as one entry, by a plain read of all logs."""
    payloads: dict[tuple[int, int], set[bytes]] = {}
    for log in corpus.bookies.glob("*/*/current/*.log"):
        data, cookie = log.read_bytes(), log.with_name("VERSION").read_text()
        bookie = next(line.split('"')[1] for line in cookie.splitlines() if line.startswith("bookieHost"))
        for at, size, _, ledger, entry in one_by_one(data):
            known = corpus.oracle["ledgers"].get(str(ledger), {}).get("decoded")
            members = {each for part in known["segments"] for each in part["ensemble"]} if known else ()
            past_end = known and known["closed"] and entry > known["lastEntryId"]
            if known and bookie in members and not past_end:
                begin = at + 4 + 32 + DIGEST_BYTES[known["digestType"]]
                payloads.setdefault((ledger, entry), set()).add(data[begin : at + size])
    return {ledger for (ledger, _), each in payloads.items() if len(each) > 1}


def test_copies_differ_where_a_plain_read_says_so(real: Corpus, databases: Asked) -> None:
    """The ledgers that were not written by a client, but by hand, each copy with a payload of its own."""
    found = {row["ledger_id"] for row in databases.of("replica-mismatch")}
    assert found == differing(real)
    assert found


def rewrite(corpus: Corpus, row: dict[str, Any], digest_too: bool) -> None:
    """Turn the last byte of an entry's payload, and write the digest anew where that is asked for."""
    place = corpus.bookies / row["bookie_id"].replace(":", "_") / f"ledgers{row['logger']}"
    log = place / "current" / f"{row['log_id']:x}.log"
    data, start = bytearray(log.read_bytes()), row["entry_offset"]
    end = start + row["entry_bytes"]
    data[end - 1] ^= 1
    if digest_too:
        crc = crc32c(bytes(data[start : start + 32]), bytes(data[start + 36 : end]))
        struct.pack_into(">I", data, start + 32, crc)
    before = log.stat()
    log.write_bytes(data)
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))


KEY, OTHER_KEY, TAG_KEY = master_key(PASSWORD.encode()), b"\xa5another key, 20 byt", b"of these tags" * 2


def change_key(corpus: Corpus, row: dict[str, Any]) -> None:
    """Give a ledger another master key in the index of a bookie."""
    place = corpus.bookies / row["bookie_id"].replace(":", "_") / f"ledgers{row['logger']}"
    with Rdict(str(place / "current" / "ledgers"), Options(raw_mode=True)) as index:
        name = row["ledger_id"].to_bytes(8, "big")
        data = index[name]
        assert data is not None
        assert KEY in data
        index[name] = data.replace(KEY, OTHER_KEY)


def secrets_in(out: Path) -> list[bytes]:
    """Password, keys and their tags that the files of a run have, in any spelling."""
    tags = [blake2b(each, key=TAG_KEY, digest_size=8).digest() for each in (KEY, OTHER_KEY)]
    spelt = [
        word
        for each in (PASSWORD.encode(), KEY, OTHER_KEY, TAG_KEY, *tags)
        for word in (each, each[::-1], each.hex().encode(), base64.b64encode(each))
    ]
    spelt += [str(int.from_bytes(tag, "big", signed=True)).encode() for tag in tags]
    told = [file.read_bytes() for file in out.rglob("*") if file.is_file()]
    return [each for each in spelt if any(each in data for data in told)]


def test_a_flipped_byte_copies_that_differ_and_a_changed_key_are_found_each_by_its_id_and_nothing_else_is(
    databases: Asked,
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies: dict[tuple[int, int], list[dict[str, Any]]] = {}
    # Of bookies with one directory: two of another's are swapped, and what rests on these is suspected.
    single = {"bk-c.rack2", "127.0.103.4:3181"}
    made_by_hand = {row["ledger_id"] for row in databases.of("replica-mismatch")}
    for row in databases.table("digests"):
        if row["ledger_id"] in made_by_hand:
            continue
        if row["digest_type"] == "CRC32C" and row["comparable"] and row["payload_bytes"]:
            copies.setdefault((row["ledger_id"], row["entry_id"]), []).append(row)
    pairs = [
        rows
        for _, rows in sorted(copies.items())
        if len(rows) > 1 and single & {row["bookie_id"] for row in rows}
    ]
    flipped = next(row for row in pairs[0] if row["bookie_id"] in single)
    other = next(rows for rows in pairs if rows[0]["ledger_id"] != flipped["ledger_id"])
    changed = next(row for row in other if row["bookie_id"] in single)
    corpus = with_logs("dbledger-long", tmp_path_factory.mktemp("altered"))
    rewrite(corpus, flipped, digest_too=False)
    rewrite(corpus, changed, digest_too=True)
    change_key(corpus, changed)
    monkeypatch.setattr("secrets.token_bytes", lambda length: TAG_KEY[:length])
    credentials = corpus.root / "credentials.toml"
    credentials.write_text(f'[ledgers]\npassword = "{PASSWORD}"\n')
    credentials.chmod(0o600)
    found = deep(spark, corpus, credentials=str(credentials))
    macs = [row for row in found.table("digests") if row["digest_type"] == "MAC"]
    assert {row["state"] for row in macs} == {"right"}
    assert len(macs) == sum(row["reason"] == "no-password" for row in databases.table("digests"))
    assert secrets_in(found.out) == []
    assert {(each.id, each.ledger, each.bookie) for each in {*found.seen()} - {*databases.seen()}} == {
        ("entry-digest-wrong", None, flipped["bookie_id"]),
        ("replica-mismatch", changed["ledger_id"], None),
        ("master-key-mismatch", None, changed["bookie_id"]),
    }
    [key] = found.of("master-key-mismatch")
    assert (key["severity"], key["confidence"]) == ("warning", "confirmed")
    assert json.loads(key["evidence"])["sample"] == [str(changed["ledger_id"])]
    assert {row["master_key"] for row in databases.table("digests")} == {"right", None}
    assert {*databases.seen()} - {*found.seen()} == set()
    [wrong] = found.of("entry-digest-wrong")
    [mismatch] = [row for row in found.of("replica-mismatch") if row["ledger_id"] == changed["ledger_id"]]
    assert (wrong["severity"], wrong["confidence"]) == ("error", "confirmed")
    evidence = json.loads(wrong["evidence"])
    assert (evidence["entries"], evidence["entry_id"]) == (1, flipped["entry_id"])
    evidence = json.loads(mismatch["evidence"])
    [sample] = evidence["sample"]
    assert sample["entry_id"] == changed["entry_id"]
    by_bookie = {name: one["payload_crc32c"] for one in sample["copies"] for name in one["bookies"]}
    assert set(by_bookie) == {row["bookie_id"] for row in other}
    others = {crc for name, crc in by_bookie.items() if name != changed["bookie_id"]}
    assert others == {f"{changed['payload_crc32c']:08x}"}
    assert by_bookie[changed["bookie_id"]] not in others
