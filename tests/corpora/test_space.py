"""The owner of each byte in real bookies' entry logs, compared with a plain read; and planted damage."""

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
from tests.codecs.bookie.test_entry_log_records import scan_one_by_one
from tests.codecs.entry_logs import ledgers_map
from tests.corpora.audited import RunWithTables, audit
from tests.corpora.corpora import DATA, Corpus, unpack
from tests.corpora.test_collected import assert_equal_to_disks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_LOGS = {"entry-log-header-wrong", "entry-log-missing", "entry-log-reclaimable", "entry-log-pinned"}
BOOKIE = "bookie{}.dc1.example:3181"
PASSWORD = "golden"
"""Of the ledgers of dbledger-long."""


def current(corpus: Corpus, number: int) -> Path:
    return corpus.bookies / f"bookie{number}.dc1.example_3181" / "ledgers0" / "current"


def sizes(data: bytes) -> Counter[int]:
    """Return the bytes of each ledger."""
    bytes_by_ledger: Counter[int] = Counter()
    for _, size, _, ledger, _ in scan_one_by_one(data):
        bytes_by_ledger[ledger] += size
    return bytes_by_ledger


def close(log: Path, without: int | None = None) -> None:
    """Add the ledgers map to a log that was left open, except for one ledger."""
    data = log.read_bytes()
    pairs = [(ledger, size) for ledger, size in sizes(data).items() if ledger != without]
    header = struct.pack(">4siqi", b"BKLO", 1, len(data), len(pairs))
    log.write_bytes(header + data[len(header) :] + ledgers_map(pairs))


def point_elsewhere(index: Path) -> None:
    """Point the index entry of the ledger's first entry at an entry of another ledger in its log."""
    data = bytearray(index.read_bytes())
    slots = struct.unpack(f">{(len(data) - 1024) // 8}q", data[1024:])
    place = next(number for number, location in enumerate(slots) if location)
    log = index.parents[2] / f"{slots[place] >> 32:x}.log"
    ledger_id = int(index.stem, 16)
    target = next(
        offset for offset, _, _, ledger, _ in scan_one_by_one(log.read_bytes()) if ledger != ledger_id
    )
    struct.pack_into(">q", data, 1024 + 8 * place, (slots[place] >> 32) << 32 | target + 4)
    index.write_bytes(data)


def with_logs(name: str, root: Path) -> Corpus:
    """Unpack a corpus and the entry logs of its bookies."""
    corpus = unpack(name, root / name)
    with tarfile.open(DATA / name / "entry-logs.tar.gz") as archive:
        archive.extractall(corpus.root, filter="data")
    return corpus


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Return flat-v1 with a fault on each bookie: a map, a missing log, a cut log, an index."""
    corpus = with_logs("flat-v1", tmp_path_factory.mktemp("space"))
    close(current(corpus, 1) / "1.log")
    lacking = sizes((current(corpus, 1) / "0.log").read_bytes()).most_common(1)[0][0]
    close(current(corpus, 1) / "0.log", without=lacking)
    (current(corpus, 2) / "1.log").unlink()
    cut = current(corpus, 3) / "1.log"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    (current(corpus, 3) / "7.log.compacting").write_bytes(bytes(5000))
    (current(corpus, 3) / "1.log.0.compacted").hardlink_to(cut)
    index = max(current(corpus, 4).rglob("*.idx"), key=lambda path: path.stat().st_size)
    point_elsewhere(index)
    return corpus


@pytest.fixture(scope="module")
def found(spoiled: Corpus, spark: SparkSession) -> RunWithTables:
    dump, out = f"dump://{spoiled.dump}", spoiled.root / "runs" / "space"
    return audit(spark, dump, spoiled.bookies, out, entry_logs=True, bookie_conf=configuration(spoiled))


def configuration(corpus: Corpus) -> str:
    """Write settings: within an hour, compaction rewrites nearly every log with garbage, on any disk."""
    file = corpus.root / "bk_server.conf"
    settings = (
        *("minorCompactionThreshold=0.9", "majorCompactionThreshold=0.99"),
        *("minorCompactionInterval=600", "majorCompactionInterval=3600"),
        *("diskUsageThreshold=0.9999", "diskUsageWarnThreshold=0.9999"),
    )
    file.write_text("\n".join((*settings, "")))
    return str(file)


def test_run_3_hours_later_reports_stuck_orphans_and_stopped_compaction(
    spoiled: Corpus, found: RunWithTables, spark: SparkSession
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
        assert found.findings_of(id) == []
        assert {row["bookie_id"] for row in again.findings_of(id)} == bookies & registered
        since = {json.loads(row["evidence"])["since"] for row in again.findings_of(id)}
        assert since == {found.report.run.scan_time}


def test_the_classes_of_every_file_add_up_to_its_length(spoiled: Corpus, found: RunWithTables) -> None:
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


def test_bytes_outside_entry_logs_equal_the_lengths_of_those_files(
    spoiled: Corpus, found: RunWithTables
) -> None:
    rows = {row["directory"]: row for row in found.table("disks")}
    assert {str(path.parent) for path in spoiled.bookies.glob("*/*/current")} == set(rows)
    total: Counter[str] = Counter()
    for path, row in rows.items():
        files = [file for file in Path(path, "current").rglob("*") if file.is_file()]
        other_bytes = sum(file.stat().st_size for file in files if ".log" not in file.name)
        kinds = {name: row[name] for name in row if name.endswith("_bytes") and "_" in name}
        assert kinds.pop("capacity_bytes") >= kinds.pop("free_bytes") > 0
        assert sum(kinds.values()) == other_bytes
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


def test_space_view_totals_equal_the_file_sizes(spoiled: Corpus, found: RunWithTables) -> None:
    run = RunReader(found.out)
    total = sum(row["bytes"] for row in found.table("space"))
    for by in ("bookie", "ledger", "application", "age"):
        view = space_view(run, by)
        assert (view.bytes, view.file_bytes) == (total, total)
    # What the gate refuses is listed too: this cluster was saved long ago, and some of it is held.
    view = space_view(run, "bookie")
    steps = {(step.bookie_id, step.bytes) for step in view.steps}
    steps |= {(refused.bookie_id, refused.bytes) for refused in view.refused}
    for row in found.findings_of("entry-log-reclaimable"):
        assert (row["bookie_id"], json.loads(row["evidence"])["bytes"]) in steps
    of_bookies = {tally.name: tally.bytes for tally in space_view(run, "bookie").totals}
    for number in (1, 2, 3, 4):
        logs = [*current(spoiled, number).glob("*.log"), *current(spoiled, number).glob("*.compacting")]
        assert of_bookies[BOOKIE.format(number)] == sum(log.stat().st_size for log in logs)


def test_deletion_candidates_are_the_mapped_logs_about_to_be_deleted(found: RunWithTables) -> None:
    maps = {row["path"] for row in found.table("entry_logs") if row["counted"] == "map"}
    next_deletions = {row["path"] for row in found.table("log_foresight") if row["action"] == "delete"}
    candidates = found.table("deletion_candidates")
    assert {row["path"] for row in candidates} == next_deletions & maps
    assert {row["state"] for row in candidates} <= {"ok"}


def test_bytes_of_every_ledger_are_those_of_a_plain_read(spoiled: Corpus, found: RunWithTables) -> None:
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


def test_each_damaged_file_gets_its_own_check_id_and_no_other(found: RunWithTables) -> None:
    pairs = {(hit.id, hit.bookie) for hit in found.finding_keys() if hit.id in OF_LOGS - {"entry-log-pinned"}}
    assert pairs == {
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
    [wrong] = found.findings_of("entry-log-header-wrong")
    assert (wrong["severity"], wrong["confidence"]) == ("critical", "confirmed")
    assert "the ledgers map is wrong for 1 ledger" in wrong["message"]


def test_orphan_and_over_replicated_bytes_agree_with_those_checks(found: RunWithTables) -> None:
    classes = {
        (row["bookie_id"], row["ledger_id"], row["class"])
        for row in found.table("space")
        if row["ledger_id"] is not None
    }
    orphans = {(row["bookie_id"], row["ledger_id"]) for row in found.table("orphans")}
    orphan_space = {(bookie, ledger) for bookie, ledger, kind in classes if kind == SpaceClass.ORPHAN}
    assert orphan_space
    assert orphan_space <= orphans
    foreign = {(bookie, ledger) for bookie, ledger, kind in classes if kind == SpaceClass.OVER_REPLICATED}
    over_replicated = {
        (row["bookie_id"], row["ledger_id"]) for row in found.findings_of("over-replicated-ledger")
    }
    assert foreign == over_replicated & {(bookie, ledger) for bookie, ledger, _ in classes}


def deep(spark: SparkSession, corpus: Corpus, **options: Any) -> RunWithTables:
    """Run an audit that checks the digest of every entry."""
    dump, run = f"dump://{corpus.dump}", corpus.root / "space"
    return audit(spark, dump, corpus.bookies, run, entry_logs=True, deep=True, digest_percent=100, **options)


def as_on_disk(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in a fixed order, with the paths that a host's own directories have."""
    relative_rows = [
        {key: value.partition("#")[2] if key in ("directory", "path") and "#" in str(value) else value
         for key, value in row.items() if key != "seen"}
        for row in rows
    ]  # fmt: skip
    return sorted(relative_rows, key=repr)


NOT_OFFERED = ("entry-log-reclaimable", "entry-log-pinned")


def unread_key(row: dict[str, Any]) -> tuple[str, int]:
    return row["path"], row["ledger_id"]


def hold_space(
    direct: list[dict[str, Any]], collected: list[dict[str, Any]], unread: set[tuple[str, int]]
) -> None:
    """Assert equal rows; for ``unread`` ledgers in logs equal bytes, none superseded in ``collected``."""
    read_rows = [[row for row in rows if unread_key(row) not in unread] for rows in (direct, collected)]
    assert read_rows[0] == read_rows[1]
    sizes: list[Counter[tuple[str, int]]] = [Counter(), Counter()]
    for total, rows in zip(sizes, (direct, collected), strict=True):
        for row in rows:
            if unread_key(row) in unread:
                total[unread_key(row)] += row["bytes"]
    assert sizes[0] == sizes[1]
    unsure = {row["class"] for row in collected if unread_key(row) in unread}
    assert SpaceClass.SUPERSEDED not in unsure


def hold_to(direct: RunWithTables, collected: RunWithTables) -> None:
    """Assert that audits of collections and of the directories have the same findings and tables.

    A collection has no entries. An entry of a ledger that an index lacks may be in any log. So the audit
    offers no log with bytes of such a ledger if the index names no entry there. It also cannot
    read the index and the list of logs again. So on a running bookie, entries in a missing log are unknown.
    """
    gone_ledgers = {row["ledger_id"] for row in collected.table("gone_entries")}
    assert gone_ledgers == {row["ledger_id"] for row in direct.table("gone_entries")}
    unread = {unread_key(row) for row in as_on_disk(collected.table("log_entries"))}
    logs = {path for path, _ in unread}
    assert_equal_to_disks(collected, direct, but=NOT_OFFERED if unread else (), ledgers=gone_ledgers)
    for name in ("entry_logs", "locations", "misplaced"):
        assert as_on_disk(collected.table(name)) == as_on_disk(direct.table(name)), name
    foresight = [as_on_disk(run.table("log_foresight")) for run in (direct, collected)]
    read_rows = [[row for row in rows if row["path"] not in logs] for rows in foresight]
    assert read_rows[0] == read_rows[1]
    assert {row["frees"] for row in foresight[1] if row["needed"]} <= {0}
    hold_space(as_on_disk(direct.table("space")), as_on_disk(collected.table("space")), unread)
    sizes = [
        [{**row, "free_bytes": row["free_bytes"] > 0} for row in audit_run.table("disks")]
        for audit_run in (direct, collected)
    ]
    assert as_on_disk(sizes[1]) == as_on_disk(sizes[0])


def test_audit_of_collected_index_files_and_logs_equals_audit_of_the_disks(
    spoiled: Corpus, found: RunWithTables, spark: SparkSession
) -> None:
    out = spoiled.root / "collected"
    collection = collect([str(spoiled.bookies)], str(out), AuditOptions(entry_logs=True), spark)
    assert collection.unread_count == 0
    dump = f"dump://{spoiled.dump}"
    conf = configuration(spoiled)
    run = spoiled.root / "of-collection" / "run"
    collected = audit(spark, dump, out, run, entry_logs=True, bookie_conf=conf)
    hold_to(found, collected)
    registered = {row["bookie_id"] for row in found.table("bookies") if row["registered"] is not None}
    states = {(row["bookie_id"], row["ledger_id"]): row["state"] for row in collected.table("gone_entries")}
    assert set(states.values()) == {"once"}
    unknown = {
        (part["bookie_id"], row["ledger_id"])
        for row in collected.table("judged")
        for part in row["unknown"]
        if part["why"] == "entry-log-gone"
    }
    assert unknown
    assert unknown <= {replica for replica in states if replica[0] in registered}
    assert {row["state"] for row in found.table("gone_entries")} == {"agreed"}
    assert not [
        part for row in found.table("judged") for part in row["unknown"] if part["why"] == "entry-log-gone"
    ]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Return dbledger-long unmodified: a log space for each ledger directory, two directories swapped."""
    return with_logs("dbledger-long", tmp_path_factory.mktemp("space"))


@pytest.fixture(scope="module")
def databases(real: Corpus, spark: SparkSession) -> RunWithTables:
    return deep(spark, real)


def test_real_databases_and_their_logs_agree(databases: RunWithTables) -> None:
    ours, bookies = databases, databases.out.parent / "bookies"
    rows = ours.table("space")
    logs = [log for log in bookies.rglob("*.log") if log.parent.name == "current"]
    assert sum(row["bytes"] for row in rows) == sum(log.stat().st_size for log in logs)
    assert ours.table("misplaced") == []
    located = [row for row in ours.table("locations") if row["log_id"] is not None]
    assert {row["probe"] for row in located} == {"ok"}
    assert not {finding.id for finding in ours.finding_keys()} & {
        "entry-log-header-wrong",
        "entry-log-missing",
    }
    other_ids = {finding.id for finding in ours.finding_keys()} - OF_LOGS
    assert "orphan-ledger" in other_ids
    assert SpaceClass.LIVE in {row["class"] for row in rows}


def test_every_entry_that_real_clients_wrote_matches_its_digest(databases: RunWithTables) -> None:
    rows = [row for row in databases.table("digests") if row["ledger_id"] is not None]
    states = Counter((row["digest_type"], row["state"], row["reason"]) for row in rows)
    assert {kind for kind, _, reason in states if reason is None} >= {"CRC32", "CRC32C"}
    assert {state for _, state, reason in states if reason is None} == {"right"}
    assert {kind for kind, _, reason in states if reason == "no-password"} == {"MAC"}
    assert {row["entries"] for row in rows} == {1}
    entry_count = sum(row["entries"] for row in databases.table("locations") if row["log_id"] is not None)
    assert len(rows) == entry_count
    assert databases.findings_of("entry-digest-wrong") == []
    assert any(note.startswith("digests: ") for note in map(sentence_of, databases.report.run.remarks))


def test_collected_databases_and_logs_have_the_same_space_as_the_disks(
    real: Corpus, databases: RunWithTables, spark: SparkSession
) -> None:
    """Each bookie has one collection, the last without entry logs; all else about its disks is unreported."""
    places = sorted(real.bookies.iterdir())
    for place in places:
        host_directory = real.root / "hosts" / place.name
        host_directory.mkdir(parents=True)
        (host_directory / place.name).symlink_to(place)
        logs_too = AuditOptions(entry_logs=place != places[-1])
        collect([str(host_directory)], str(real.root / "collected" / place.name), logs_too)
    out = real.root / "of-collections"
    collected = audit(spark, f"dump://{real.dump}", real.root / "collected", out, entry_logs=True, deep=True)
    last = {path.name for path in places[-1].iterdir() if list(path.glob("current/*.log"))}
    unread = [row for row in collected.table("entry_logs") if row["reason"] and row["bytes"] is None]
    assert {row["reason"] for row in unread} == {"the bookie's collection was made without --entry-logs"}
    assert {Path(row["directory"]).parts[-2:] for row in unread} == {(places[-1].name, name) for name in last}

    def prune(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows = [row for row in rows if places[-1].name not in row["path"]]
        # Directories of a host are below the link that it was collected through.
        return [{**row, **{key: f"{Path(*Path(row[key]).parts[-back:])}"
                 for key, back in (("directory", 2), ("path", 4))}} for row in rows]  # fmt: skip

    unknown = {unread_key(row) for row in as_on_disk(prune(collected.table("log_entries")))}
    hold_space(
        as_on_disk(prune(databases.table("space"))), as_on_disk(prune(collected.table("space"))), unknown
    )
    assert prune(collected.table("space"))
    notes = [*map(sentence_of, collected.report.run.remarks)]
    assert any("bookies read from collections" in note for note in notes)
    assert any(note.startswith(f"entry logs: {plural(len(unread), 'file')} or director") for note in notes)


def differing(corpus: Corpus) -> set[int]:
    """Return ledgers with different payloads of one entry on members, by a plain read of all logs."""
    payloads: dict[tuple[int, int], set[bytes]] = {}
    for log in corpus.bookies.glob("*/*/current/*.log"):
        data, cookie = log.read_bytes(), log.with_name("VERSION").read_text()
        bookie = next(line.split('"')[1] for line in cookie.splitlines() if line.startswith("bookieHost"))
        for offset, size, _, ledger, entry in scan_one_by_one(data):
            record = corpus.oracle["ledgers"].get(str(ledger), {}).get("decoded")
            members = {value for part in record["segments"] for value in part["ensemble"]} if record else ()
            past_end = record and record["closed"] and entry > record["lastEntryId"]
            if record and bookie in members and not past_end:
                begin = offset + 4 + 32 + DIGEST_BYTES[record["digestType"]]
                payloads.setdefault((ledger, entry), set()).add(data[begin : offset + size])
    return {ledger for (ledger, _), value in payloads.items() if len(value) > 1}


def test_replica_mismatch_findings_equal_a_plain_read_of_the_logs(
    real: Corpus, databases: RunWithTables
) -> None:
    """These ledgers were written by hand, not by a client, each copy with its own payload."""
    ledger_ids = {row["ledger_id"] for row in databases.findings_of("replica-mismatch")}
    assert ledger_ids == differing(real)
    assert ledger_ids


def rewrite(corpus: Corpus, row: dict[str, Any], digest_too: bool) -> None:
    """Change the last byte of an entry's payload, and write the digest again if ``digest_too`` is set."""
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
    """Return the password, keys and key tags that the files of a run contain, in any encoding."""
    tags = [blake2b(secret, key=TAG_KEY, digest_size=8).digest() for secret in (KEY, OTHER_KEY)]
    spelt = [
        word
        for secret in (PASSWORD.encode(), KEY, OTHER_KEY, TAG_KEY, *tags)
        for word in (secret, secret[::-1], secret.hex().encode(), base64.b64encode(secret))
    ]
    spelt += [str(int.from_bytes(tag, "big", signed=True)).encode() for tag in tags]
    contents = [file.read_bytes() for file in out.rglob("*") if file.is_file()]
    return [secret for secret in spelt if any(secret in data for data in contents)]


def test_flipped_byte_unequal_copies_and_changed_key_each_get_only_their_finding(
    databases: RunWithTables,
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies: dict[tuple[int, int], list[dict[str, Any]]] = {}
    # Of bookies with one directory: two of another's are swapped, and what rests on these is suspected.
    single = {"bk-c.rack2", "127.0.103.4:3181"}
    made_by_hand = {row["ledger_id"] for row in databases.findings_of("replica-mismatch")}
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
    other_copies = next(rows for rows in pairs if rows[0]["ledger_id"] != flipped["ledger_id"])
    changed = next(row for row in other_copies if row["bookie_id"] in single)
    corpus = with_logs("dbledger-long", tmp_path_factory.mktemp("altered"))
    rewrite(corpus, flipped, digest_too=False)
    rewrite(corpus, changed, digest_too=True)
    change_key(corpus, changed)
    monkeypatch.setattr("secrets.token_bytes", lambda length: TAG_KEY[:length])
    credentials = corpus.root / "credentials.toml"
    credentials.write_text(f'[ledgers]\npassword = "{PASSWORD}"\n')
    credentials.chmod(0o600)
    run = deep(spark, corpus, credentials=str(credentials))
    macs = [row for row in run.table("digests") if row["digest_type"] == "MAC"]
    assert {row["state"] for row in macs} == {"right"}
    assert len(macs) == sum(row["reason"] == "no-password" for row in databases.table("digests"))
    assert secrets_in(run.out) == []
    assert {
        (hit.id, hit.ledger, hit.bookie) for hit in {*run.finding_keys()} - {*databases.finding_keys()}
    } == {
        ("entry-digest-wrong", None, flipped["bookie_id"]),
        ("replica-mismatch", changed["ledger_id"], None),
        ("master-key-mismatch", None, changed["bookie_id"]),
    }
    [key] = run.findings_of("master-key-mismatch")
    assert (key["severity"], key["confidence"]) == ("warning", "confirmed")
    assert json.loads(key["evidence"])["sample"] == [str(changed["ledger_id"])]
    assert {row["master_key"] for row in databases.table("digests")} == {"right", None}
    assert {*databases.finding_keys()} - {*run.finding_keys()} == set()
    [wrong] = run.findings_of("entry-digest-wrong")
    [mismatch] = [
        row for row in run.findings_of("replica-mismatch") if row["ledger_id"] == changed["ledger_id"]
    ]
    assert (wrong["severity"], wrong["confidence"]) == ("error", "confirmed")
    evidence = json.loads(wrong["evidence"])
    assert (evidence["entries"], evidence["entry_id"]) == (1, flipped["entry_id"])
    evidence = json.loads(mismatch["evidence"])
    [sample] = evidence["sample"]
    assert sample["entry_id"] == changed["entry_id"]
    by_bookie = {name: copy["payload_crc32c"] for copy in sample["copies"] for name in copy["bookies"]}
    assert set(by_bookie) == {row["bookie_id"] for row in other_copies}
    other_crcs = {crc for name, crc in by_bookie.items() if name != changed["bookie_id"]}
    assert other_crcs == {f"{changed['payload_crc32c']:08x}"}
    assert by_bookie[changed["bookie_id"]] not in other_crcs
